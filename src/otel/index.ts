// `holdfast/otel`: spans and metrics for OpenTelemetry. It imports nothing at run time: the caller passes a
// tracer, a meter or both. Metrics have the names of holdfast/prometheus.

import { tracingChannel, type TracingChannelSubscribers } from "node:diagnostics_channel";
import type { Lease, Locks } from "../core/api.ts";
import { LockError } from "../core/errors.ts";
import type { AcquireTrace, ReleaseTrace } from "../core/tracing.ts";
import { observe, type ObserverOptions } from "../telemetry/observer.ts";

export type { ObserverOptions } from "../telemetry/observer.ts";

type Attributes = Readonly<Record<string, string | number | string[]>>;

/** The part of a `Span` of `@opentelemetry/api` that holdfast uses. */
export interface SpanLike {
  setAttribute(name: string, value: string): unknown;
  setStatus(status: { code: number; message?: string }): unknown;
  recordException(exception: Error | string): void;
  end(): void;
}

/** The part of a `Tracer` that holdfast uses. */
export interface TracerLike {
  startSpan(name: string, options: { attributes: Attributes }): SpanLike;
}

interface Instrument {
  readonly description: string;
  readonly unit?: string;
}

/** The part of a `Meter` that holdfast uses. */
export interface MeterLike {
  createHistogram(name: string, options: Instrument): { record(value: number, attributes: Attributes): void };
  createCounter(name: string, options: Instrument): { add(value: number, attributes: Attributes): void };
  createUpDownCounter(
    name: string,
    options: Instrument,
  ): { add(value: number, attributes: Attributes): void };
}

/** Options of `meterLocks`. */
export interface MeterOptions extends ObserverOptions {
  /** The meter, for example `metrics.getMeter("holdfast")`. */
  readonly meter: MeterLike;
}

/** Options of `traceLocks`. */
export interface TracerOptions {
  /** The tracer, for example `trace.getTracer("holdfast")`. */
  readonly tracer: TracerLike;
  /** Adds the keys to each span. Keys may be personal data, so spans omit them by default. @default false */
  readonly keys?: boolean | undefined;
}

/** SpanStatusCode.ERROR. */
const ERROR_STATUS = 2;

/**
 * Records metrics of `locks` from now on. Returns a function that stops the recording.
 *
 * @example
 * const stop = meterLocks(locks, { meter: metrics.getMeter("holdfast"), store: "redis" });
 */
export function meterLocks(locks: Locks, options: MeterOptions): () => void {
  const { meter } = options;
  const seconds = (name: string, description: string) =>
    meter.createHistogram(name, { description, unit: "s" });
  const wait = seconds("holdfast.wait", "Time from the call to the lease or to the error");
  const hold = seconds("holdfast.hold", "Time from the grant to the end of a lease");
  const held = meter.createUpDownCounter("holdfast.held", { description: "Leases that this process holds" });
  const waiting = meter.createUpDownCounter("holdfast.waiting", { description: "Calls that wait for a key" });
  const lost = meter.createCounter("holdfast.lost", { description: "Leases that were lost" });
  const timeouts = meter.createCounter("holdfast.timeouts", {
    description: "Calls that gave up on a busy key",
  });
  const late = meter.createCounter("holdfast.renewals_late", { description: "Leases in danger" });
  const errors = meter.createCounter("holdfast.store_errors", {
    description: "Calls that did not reach the store",
  });
  const deadlocks = meter.createCounter("holdfast.deadlocks", {
    description: "Calls rejected to break a cycle",
  });
  const jumps = meter.createCounter("holdfast.clock_jumps", { description: "Jumps of a server's clock" });
  return observe(locks, options, {
    waited: (value, labels) => {
      wait.record(value, { ...labels });
      if (labels.outcome === "timeout") timeouts.add(1, { store: labels.store, group: labels.group });
    },
    held: (value, labels) => hold.record(value, { ...labels }),
    addHeld: (change, labels) => held.add(change, { ...labels }),
    addWaiting: (change, labels) => waiting.add(change, { ...labels }),
    lost: (labels) => lost.add(1, { ...labels }),
    renewalLate: (labels) => late.add(1, { ...labels }),
    storeError: (labels) => errors.add(1, { ...labels }),
    deadlock: (labels) => deadlocks.add(1, { ...labels }),
    clockJump: (labels) => jumps.add(1, { ...labels }),
  });
}

type Traced<Context> = Context & { readonly result?: unknown; readonly error?: unknown };

/**
 * Makes spans of all locks of this process from now on: `holdfast acquire` with the wait in it, `holdfast hold`
 * until the lease ends, and `holdfast release`. They belong to the trace of the caller. Returns the function that ends it.
 *
 * @example
 * const stop = traceLocks({ tracer: trace.getTracer("holdfast") });
 */
export function traceLocks({ tracer, keys = false }: TracerOptions): () => void {
  const calls = new WeakMap<object, SpanLike>();
  /** Of leases that are held, by key and fence. */
  const holds = new Map<string, { readonly span: SpanLike; readonly signal: AbortSignal }>();
  const attributes = (trace: { readonly keys: readonly string[]; readonly label: string }) => ({
    "holdfast.label": trace.label,
    "holdfast.key_count": trace.keys.length,
    ...(keys ? { "holdfast.keys": [...trace.keys] } : {}),
  });

  const begin = (name: string, context: Traced<AcquireTrace> | Traced<ReleaseTrace>, more: object): void => {
    calls.set(context, tracer.startSpan(name, { attributes: { ...attributes(context), ...more } }));
  };
  const end = (context: object, outcome: string, error?: unknown): void => {
    const span = calls.get(context);
    if (span === undefined) return;
    calls.delete(context);
    span.setAttribute("holdfast.outcome", outcome);
    if (error !== undefined) fail(span, error);
    span.end();
  };
  const endHold = (name: string): void => {
    const hold = holds.get(name);
    if (hold === undefined) return;
    holds.delete(name);
    if (hold.signal.aborted) fail(hold.span, hold.signal.reason);
    hold.span.end();
  };
  const beginHold = (context: Traced<AcquireTrace>): void => {
    const lease = context.result as Lease;
    const { key, signal } = lease;
    const fence = lease.fenceOf(key);
    const span = tracer.startSpan("holdfast hold", { attributes: attributes(context) });
    span.setAttribute("holdfast.fence", String(fence));
    const name = holdName(key, fence);
    holds.set(name, { span, signal });
    signal.addEventListener("abort", () => endHold(name), { once: true });
  };

  const acquire = tracingChannel<Traced<AcquireTrace>>("holdfast:acquire");
  const release = tracingChannel<Traced<ReleaseTrace>>("holdfast:release");
  const whenAcquired = subscriber<Traced<AcquireTrace>>(
    (context) => begin("holdfast acquire", context, { "holdfast.mode": context.mode }),
    (context) => {
      if (context.error !== undefined) return end(context, outcomeOf(context.error), context.error);
      end(context, context.result === null ? "busy" : "acquired");
      if (context.result !== null) beginHold(context);
    },
  );
  const whenReleased = subscriber<Traced<ReleaseTrace>>(
    (context) => {
      endHold(holdName(context.key, context.fence));
      begin("holdfast release", context, {});
    },
    (context) => end(context, context.result === true ? "released" : "not-held", context.error),
  );
  acquire.subscribe(whenAcquired);
  release.subscribe(whenReleased);
  return () => {
    acquire.unsubscribe(whenAcquired);
    release.unsubscribe(whenReleased);
    for (const name of [...holds.keys()]) endHold(name);
  };
}

/** A subscriber that hears of the start and the end of an asynchronous call. */
function subscriber<Context extends object>(
  start: (context: Context) => void,
  asyncEnd: (context: Context) => void,
): TracingChannelSubscribers<Context> {
  const ignore = (): void => {};
  return { start, asyncEnd, end: ignore, asyncStart: ignore, error: ignore };
}

function holdName(key: string, fence: bigint): string {
  return `${fence} ${key}`;
}

function outcomeOf(error: unknown): string {
  return LockError.is(error) ? error.code : "failed";
}

function fail(span: SpanLike, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  span.setStatus({ code: ERROR_STATUS, message });
  span.recordException(error instanceof Error ? error : message);
}
