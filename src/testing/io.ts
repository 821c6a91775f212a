// Timeouts of the suite: the context of one call, and waiting in real time.

import assert from "node:assert/strict";
import type { Io } from "../core/store.ts";
import { nodeSystem } from "../system/node.ts";
import { StallMeter } from "./stall-meter.ts";

const CALL_TIMEOUT_MS = 30_000;
/**
 * Also in virtual time, a notification crosses real sockets. The bound is far longer than that takes, and
 * only ends a failing case.
 */
const ARRIVAL_MS = 5_000;
/** The `wait` of an acquire that must not time out. */
export const LONG_WAIT_MS = 60_000;
/**
 * The default `wait` of the suite. A busy machine may need more than the normal default, 10 s, for the
 * first call.
 */
export const USUAL_WAIT_MS = 30_000;

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    nodeSystem.after(ms, resolve);
  });
}

export function makeIo(): Io {
  return { timeoutMs: CALL_TIMEOUT_MS, signal: makeSignal(), sleep };
}

/** Waits in real time until `look` is true. The time in which the machine stalled does not count. */
export async function waitFor(
  what: string,
  look: () => boolean | Promise<boolean>,
  withinMs: number = ARRIVAL_MS,
): Promise<void> {
  const endMs = nodeSystem.monoMs() + withinMs;
  const meter = new StallMeter();
  while (!(await look())) {
    if (nodeSystem.monoMs() > endMs && meter.workingMs() > withinMs)
      assert.fail(`${what} did not happen within ${withinMs} ms`);
    await sleep(2);
  }
}

/** A barrier: resolves for all callers when `count` of them have called it. */
export function barrier(count: number): () => Promise<void> {
  let [come, open] = [0, (): void => {}];
  const all = new Promise<void>((resolve) => {
    open = resolve;
  });
  return () => {
    come += 1;
    if (come === count) open();
    return all;
  };
}

/**
 * Marks a rejection as handled, for a promise that the case awaits later. If the case fails first, its
 * own error shows.
 */
export function handled<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {});
  return work;
}

/**
 * Rejects if `work` has not settled in time. `work` itself continues.
 */
export async function withTimeout<T>(what: string, ms: number, work: Promise<T>): Promise<T> {
  let cancel = (): void => {};
  const late = new Promise<never>((_resolve, reject) => {
    cancel = nodeSystem.after(ms, () =>
      reject(new assert.AssertionError({ message: `${what} took longer than ${ms} ms` })),
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    cancel();
  }
}

/** A signal without a limit of listeners, as core makes it. */
function makeSignal(): AbortSignal {
  return (nodeSystem.abortController?.() ?? new AbortController()).signal;
}
