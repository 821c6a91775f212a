// What tests need to ask an opened store directly: the surroundings of a call, requests, and patience.

import { setMaxListeners } from "node:events";
import type { Io, OpenStore, Request } from "../../src/core/store.ts";
import { LockError } from "../../src/index.ts";
import { nodeSystem } from "../../src/system/node.ts";

const { signal } = nodeSystem.abortController?.() ?? new AbortController();
// Each call of core has a signal of its own; in a test all calls share this one.
setMaxListeners(0, signal);

export const io: Io = {
  timeoutMs: 5_000,
  signal,
  sleep: (ms) => new Promise((resolve) => void nodeSystem.after(ms, resolve)),
};

let requests = 0;

export function request(keys: string | readonly string[], wish: Partial<Request> = {}): Request {
  requests += 1;
  return {
    keys: typeof keys === "string" ? [keys] : keys,
    id: nodeSystem.randomId(),
    seq: 1,
    mode: "exclusive",
    permits: 1,
    limit: 1,
    ttlMs: 10_000,
    graceMs: 50,
    reservedFences: 10_000,
    keepMs: 0,
    label: `r${requests}`,
    actor: "actor",
    queue: true,
    ...wish,
  };
}

/** Of a request that has to be granted. */
export async function fencesOf(store: OpenStore, one: Request): Promise<readonly bigint[]> {
  const answer = await store.attempt(one, io);
  if (!("granted" in answer)) throw new Error(`${one.label} was not granted: ${Object.keys(answer).join()}`);
  return answer.granted.fences;
}

export async function fenceOf(store: OpenStore, one: Request): Promise<bigint> {
  return (await fencesOf(store, one))[0] as bigint;
}

/** Ends a wait for what never comes. */
const LONGEST_WAIT_MS = 100_000;

/**
 * What a call answers or rejects with. The call is made again if it failed only because its server, on a busy
 * machine, answered later than the timeout of one call.
 */
export async function answered<T>(call: () => Promise<T>): Promise<T> {
  const endMs = nodeSystem.monoMs() + LONGEST_WAIT_MS;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!isLate(error) || nodeSystem.monoMs() > endMs) throw error;
    }
  }
}

function isLate(error: unknown): boolean {
  return LockError.is(error) && /did not open within|did not answer the /.test(error.message);
}

/** Waits until `look` is true. */
export async function until(
  what: string,
  look: () => boolean | Promise<boolean>,
  ms = LONGEST_WAIT_MS,
): Promise<void> {
  const endMs = nodeSystem.monoMs() + ms;
  while (!(await look())) {
    if (nodeSystem.monoMs() > endMs) throw new Error(`${what} did not happen within ${ms} ms`);
    await io.sleep(5);
  }
}
