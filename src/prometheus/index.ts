// `holdfast/prometheus`: metrics of a `Locks` for prom-client. The names are those of holdfast/otel.

import type { Locks } from "../core/api.ts";
import { observe, type ObserverOptions } from "../telemetry/observer.ts";

export type { ObserverOptions } from "../telemetry/observer.ts";

interface Distribution {
  observe(labels: object, value: number): void;
}

interface Total {
  inc(labels: object, value?: number): void;
}

/** The part of a `Registry` of `prom-client` that holdfast uses. */
export interface RegistryLike {
  getSingleMetric(name: string): unknown;
  metrics(): Promise<string>;
}

/** The part of the module `prom-client` that holdfast uses. */
export interface PromClientLike {
  readonly Histogram: new (...config: never[]) => Distribution;
  readonly Counter: new (...config: never[]) => Total;
  readonly Gauge: new (...config: never[]) => Total;
  readonly register: RegistryLike;
}

/** Options of `collectMetrics`. */
export interface PrometheusOptions extends ObserverOptions {
  /** The module `prom-client`. */
  readonly client: PromClientLike;
  /** @default the registry of the module */
  readonly register?: RegistryLike | undefined;
}

/** In seconds, from a round trip to a long wait. */
const WAIT_BUCKETS = [0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60];
const HOLD_BUCKETS = [0.005, 0.02, 0.1, 0.5, 1, 5, 15, 30, 60, 300, 1_800];
const LABELS = ["store", "group"];

/**
 * Collects metrics of `locks` from now on. If several `Locks` share a registry, pass a different `store` for each.
 * Returns a function that stops the collection.
 *
 * @example
 * import promClient from "prom-client";
 * const stop = collectMetrics(locks, { client: promClient, store: "redis", group: (key) => key.split(":")[0] ?? "" });
 */
export function collectMetrics(locks: Locks, options: PrometheusOptions): () => void {
  const { client, register = client.register } = options;
  /** The metric with this name. A second `Locks` uses the metrics of the first one. */
  const metric = <M>(Type: new (...config: never[]) => M, name: string, more: object): M =>
    (register.getSingleMetric(name) as M | undefined) ??
    new Type({ name, registers: [register], labelNames: LABELS, ...more } as never);
  const histogram = (name: string, help: string, buckets: number[], labelNames = LABELS): Distribution =>
    metric(client.Histogram, name, { help, buckets, labelNames });
  const gauge = (name: string, help: string): Total => metric(client.Gauge, name, { help });
  const counter = (name: string, help: string, labelNames = LABELS): Total =>
    metric(client.Counter, name, { help, labelNames });

  const wait = histogram(
    "holdfast_wait_seconds",
    "Time from the call to the lease or to the error",
    WAIT_BUCKETS,
    [...LABELS, "outcome"],
  );
  const hold = histogram("holdfast_hold_seconds", "Time from the grant to the end of a lease", HOLD_BUCKETS);
  const held = gauge("holdfast_held", "Leases that this process holds");
  const waiting = gauge("holdfast_waiting", "Calls of this process that wait for a key");
  const lost = counter("holdfast_lost_total", "Leases that were lost", [...LABELS, "reason"]);
  const timeouts = counter("holdfast_timeouts_total", "Calls that gave up because the key was busy");
  const late = counter("holdfast_renewals_late_total", "Leases in danger because no renewal was confirmed");
  const errors = counter("holdfast_store_errors_total", "Calls that could not reach the store", [
    ...LABELS,
    "code",
  ]);
  const deadlocks = counter("holdfast_deadlocks_total", "Calls that were rejected to break a cycle");
  const jumps = counter("holdfast_clock_jumps_total", "Jumps of a server's clock", ["store"]);

  return observe(locks, options, {
    waited: (seconds, labels) => {
      wait.observe({ ...labels }, seconds);
      if (labels.outcome === "timeout") timeouts.inc({ store: labels.store, group: labels.group });
    },
    held: (seconds, labels) => hold.observe({ ...labels }, seconds),
    addHeld: (change, labels) => held.inc({ ...labels }, change),
    addWaiting: (change, labels) => waiting.inc({ ...labels }, change),
    lost: (labels) => lost.inc({ ...labels }),
    renewalLate: (labels) => late.inc({ ...labels }),
    storeError: (labels) => errors.inc({ ...labels }),
    deadlock: (labels) => deadlocks.inc({ ...labels }),
    clockJump: (labels) => jumps.inc({ ...labels }),
  });
}
