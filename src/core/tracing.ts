// The channels of node:diagnostics_channel, for observers of all locks of the process.
// docs/guides/observing.md lists names and fields. Request ids are never published. Without subscribers a
// call only checks its channel.

// A default import: Node before 18.19 has no export tracingChannel, and a named import would fail before the
// check of the version.
import diagnostics, { type Channel, type TracingChannel } from "node:diagnostics_channel";
import type { EventName } from "./events.ts";
import type { Mode } from "./store.ts";

export interface AcquireTrace {
  readonly key: string;
  readonly keys: readonly string[];
  readonly label: string;
  readonly mode: Mode;
  readonly limit: number;
  readonly waitMs: number;
}

export interface ReleaseTrace {
  readonly key: string;
  readonly keys: readonly string[];
  readonly label: string;
  /** The fence of the first key. */
  readonly fence: bigint;
}

export interface RenewTrace {
  /** The first key of each lease in the batch. */
  readonly keys: readonly string[];
}

export const acquiring: TracingChannel<AcquireTrace> = diagnostics.tracingChannel("holdfast:acquire");
export const releasing: TracingChannel<ReleaseTrace> = diagnostics.tracingChannel("holdfast:release");
export const renewing: TracingChannel<RenewTrace> = diagnostics.tracingChannel("holdfast:renew");

/** The events of a `Locks` that are also published on a channel. */
export const pointChannels: Readonly<Partial<Record<EventName, Channel>>> = {
  waiting: diagnostics.channel("holdfast:contended"),
  lost: diagnostics.channel("holdfast:lost"),
  revoked: diagnostics.channel("holdfast:revoked"),
  deadlock: diagnostics.channel("holdfast:deadlock"),
};

/** Traces an acquire, with the opening of the store. */
export function tracedAcquire<T>(
  keys: readonly string[],
  { label, mode, limit }: Pick<AcquireTrace, "label" | "mode" | "limit">,
  waitMs: number,
  run: () => Promise<T>,
): Promise<T> {
  return traced(acquiring, () => ({ key: keys[0] as string, keys, label, mode, limit, waitMs }), run);
}

export function traced<Context extends object, T>(
  tracing: TracingChannel<Context>,
  context: () => Context,
  run: () => Promise<T>,
): Promise<T> {
  return tracing.hasSubscribers ? tracing.tracePromise(run, context()) : run();
}
