// The suite's own patience: the surroundings of one call, and waiting in real time. Core has its own; a store
// must get on with both.

import assert from "node:assert/strict";
import type { Io } from "../core/store.ts";
import { nodeSystem } from "../system/node.ts";
import { StallMeter } from "./stall-meter.ts";

const CALL_TIMEOUT_MS = 30_000;
/**
 * A push crosses real sockets even where time is virtual. Far more than it takes: the bound is only there to
 * end a failure.
 */
const ARRIVAL_MS = 5_000;
/** How long an acquire in a case waits where the wait must not end first. */
export const LONG_WAIT_MS = 60_000;
/**
 * How long an acquire waits that says nothing else: a busy machine may need more than the usual 10 s for its
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
export async function arrives(
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

/** Resolves when `count` callers wait for it: nobody goes on before the last one has come. */
export function meeting(count: number): () => Promise<void> {
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

/** A promise that is awaited later. If the case fails before, its own failure is the one to be seen. */
export function later<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {});
  return work;
}

/**
 * Fails when `work` has not settled in time. The work itself goes on; its stores are closed by whoever opened
 * them.
 */
export async function within<T>(what: string, ms: number, work: Promise<T>): Promise<T> {
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

/** As the signal of a call of core: the requests of a batch all listen to it. */
function makeSignal(): AbortSignal {
  return (nodeSystem.abortController?.() ?? new AbortController()).signal;
}
