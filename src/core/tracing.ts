// Channels of node:diagnostics_channel: observers subscribe to all locks of the process by name.
// docs/guides/observing.md lists names and fields. Ids are never published. Without subscribers a call only
// checks its channel.

// By default import: Node before 18.19 has no tracingChannel, and must reach the check of its version.
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
  /** Of the first key. */
  readonly fence: bigint;
}

export interface RenewTrace {
  /** First keys of the leases of one batch. */
  readonly keys: readonly string[];
}

export const acquiring: TracingChannel<AcquireTrace> = diagnostics.tracingChannel("holdfast:acquire");
export const releasing: TracingChannel<ReleaseTrace> = diagnostics.tracingChannel("holdfast:release");
export const renewing: TracingChannel<RenewTrace> = diagnostics.tracingChannel("holdfast:renew");

/** Events of a `Locks` that are told to the whole process too. */
export const pointChannels: Readonly<Partial<Record<EventName, Channel>>> = {
  waiting: diagnostics.channel("holdfast:contended"),
  lost: diagnostics.channel("holdfast:lost"),
  revoked: diagnostics.channel("holdfast:revoked"),
  deadlock: diagnostics.channel("holdfast:deadlock"),
};

/** From the call on: a store that cannot be opened is seen too. */
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
