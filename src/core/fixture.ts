// The fixture of the unit tests of core: virtual time, the memory store, and a wrapper of that store
// (`Door`) that can make its calls hang, fail or answer late. Nothing here sleeps in real time.

import { StoreUnavailableError, UnsafeStoreError } from "./errors.ts";
import { HoldfastLocks } from "./locks.ts";
import { type LocksOptions, readLocksOptions } from "./options.ts";
import type {
  AttemptAnswer,
  DirectCalls,
  Grant,
  Guarantees,
  Io,
  OpenStore,
  RenewAnswer,
  Store,
} from "./store.ts";
import { memory } from "../stores/memory/index.ts";
import { VirtualSystem } from "../testing/virtual-system.ts";

export type Method =
  | "attempt"
  | "renew"
  | "release"
  | "abandon"
  | "subscribe"
  | "owns"
  | "inspect"
  | "note"
  | "close";
/**
 * What happens to a call: nothing, an error, an error that says that nothing was sent, a refusal for good,
 * no answer at all, or the answer's arrival after some virtual ms.
 */
export type Fault =
  | "none"
  | "fail"
  | "unsent"
  | "refuse"
  | "hang"
  | "lose-reply"
  | { readonly replyAfterMs: number }
  | Disconnect;

/** The connection ends so many times: before the call is carried out, or after it. */
export interface Disconnect {
  readonly disconnect: "before" | "after";
  times: number;
}

export class Door {
  readonly faults = new Map<Method, Fault>();
  readonly calls: Method[] = [];
  lastOpened: OpenStore | null = null;
  /** How long the store takes to open. */
  opensAfterMs = 0;
  readonly #system: VirtualSystem;

  constructor(system: VirtualSystem) {
    this.#system = system;
  }

  count(method: Method): number {
    return this.calls.filter((call) => call === method).length;
  }

  /** The same store, seen through this door. */
  store(inner: Store, guarantees: Partial<Guarantees> = {}): Store {
    return {
      name: inner.name,
      guarantees: { ...inner.guarantees, ...guarantees },
      open: async (env) => {
        if (this.opensAfterMs > 0)
          await new Promise<void>((done) => this.#system.after(this.opensAfterMs, done));
        const open = await inner.open(env);
        this.lastOpened = open;
        const seen: OpenStore = new Proxy(open, {
          get: (target, name) => {
            if (name === "direct") return directOver(seen);
            if (name === "guarantees") return { ...target.guarantees, ...guarantees };
            const value: unknown = Reflect.get(target, name);
            if (typeof value !== "function") return value;
            const method = name as Method;
            return (...args: unknown[]) => {
              const run = (): unknown => Reflect.apply(value, target, args);
              if (method === ("list" as Method) || method === ("onLoss" as Method)) return run();
              const answer = async (): Promise<unknown> =>
                shortened(method, await run(), guarantees.longestMs ?? Number.POSITIVE_INFINITY);
              return this.#through(method, answer);
            };
          },
        });
        return seen;
      },
    };
  }

  #through(method: Method, run: () => Promise<unknown>): Promise<unknown> {
    this.calls.push(method);
    const fault = this.faults.get(method) ?? "none";
    if (fault === "none") return run();
    if (fault === "hang") return new Promise(() => {});
    if (fault === "fail") return Promise.reject(new Error("connection reset"));
    if (fault === "unsent")
      return Promise.reject(new StoreUnavailableError("connection refused", { unsent: true }));
    if (fault === "refuse")
      return Promise.reject(new UnsafeStoreError("it is damaged", { setting: "record", fix: "delete it" }));
    if (typeof fault === "object" && "disconnect" in fault) return this.#disconnect(method, fault, run);
    const answer = run();
    if (fault === "lose-reply") return new Promise(() => {});
    return new Promise((resolve, reject) => {
      this.#system.after(fault.replyAfterMs, () => void answer.then(resolve, reject));
    });
  }

  async #disconnect(method: Method, fault: Disconnect, run: () => Promise<unknown>): Promise<unknown> {
    fault.times -= 1;
    if (fault.times === 0) this.faults.delete(method);
    if (fault.disconnect === "after") await run();
    throw new StoreUnavailableError("the connection was reset", { disconnected: true });
  }
}

/** The callback forms of a store over its promises, with their faults. */
export function directOver(store: OpenStore): DirectCalls {
  const io: Io = { timeoutMs: 0, signal: new AbortController().signal, sleep: () => Promise.resolve() };
  return {
    attempt: (request, settle) =>
      void store.attempt(request, io).then(
        (answer) => settle(null, answer),
        (error: unknown) => settle(error, null),
      ),
    release: (request, cookie, lastFence, settle) =>
      void store.release(request, cookie, { lastFences: [lastFence] }, io).then(
        (outcome) => settle(null, outcome),
        (error: unknown) => settle(error, null),
      ),
  };
}

/** What a store with a longest window answers. */
function shortened(method: Method, answer: unknown, longestMs: number): unknown {
  const short = <T extends { readonly validMs: number }>(valid: T): T => ({
    ...valid,
    validMs: Math.min(valid.validMs, longestMs),
  });
  if (longestMs === Number.POSITIVE_INFINITY) return answer;
  if (method === "attempt" && "granted" in (answer as AttemptAnswer))
    return { granted: short((answer as { granted: Grant }).granted) };
  if (method !== "renew") return answer;
  return (answer as RenewAnswer[]).map((one) => (one.state === "renewed" ? short(one) : one));
}

export interface World {
  readonly system: VirtualSystem;
  readonly door: Door;
  readonly store: Store;
  /** Locks whose every call goes through the door. */
  locks(options?: LocksOptions): HoldfastLocks;
  /** Locks of "another process": same store, no faults. */
  others(options?: LocksOptions): HoldfastLocks;
}

export function world(guarantees: Partial<Guarantees> = {}, seed = 1): World {
  const system = new VirtualSystem({ seed });
  const door = new Door(system);
  const inner = memory();
  const faulty = door.store(inner, guarantees);
  const make = (store: Store, options: LocksOptions): HoldfastLocks =>
    new HoldfastLocks(store, system, readLocksOptions(options, system.processLabel));
  return {
    system,
    door,
    store: inner,
    locks: (options = {}) => make(faulty, options),
    others: (options = {}) => make(inner, { label: "other", ...options }),
  };
}

/** Moves time until the promise settles, and returns what it settled to. */
export async function within<T>(system: VirtualSystem, ms: number, promise: Promise<T>): Promise<T> {
  let settled = false;
  promise.then(
    () => {
      settled = true;
    },
    () => {
      settled = true;
    },
  );
  await system.settle();
  for (let passed = 0; !settled && passed < ms; passed += 5) await system.advance(5);
  if (!settled) throw new Error(`did not settle within ${ms} virtual ms`);
  return promise;
}

/** The error that a promise rejects with. */
export async function refusal(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    return error as Error;
  }
  throw new Error("it was not refused");
}
