// The store of `createTestLocks`: a memory store of its own for each instance. A test can make it
// unreachable, and can act in it as another process. The methods for tests take effect before they
// return.

import { InvalidArgumentError, StoreUnavailableError } from "../core/errors.ts";
import { checkKey, showKey } from "../core/key.ts";
import type { Guarantees, LossReason, OpenStore, Request, Store, StoreEnv } from "../core/store.ts";
import type { System } from "../core/system.ts";
import { memoryGuarantees } from "../stores/memory/guarantees.ts";
import type { Client, MemoryServer, Step } from "../stores/memory/server.ts";
import { type MemoryStore, MemoryWorld } from "../stores/memory/store.ts";

const TTL_MS = 30_000;

export class TestStore implements Store {
  readonly name = "test";
  readonly guarantees: Guarantees = memoryGuarantees;
  readonly #system: System;
  readonly #namespace: string;
  readonly #world = new MemoryWorld();
  readonly #server: MemoryServer;
  /** The other process that `busy` simulates. */
  readonly #other: Client;
  /** The instance under test, while its store is open. */
  #own: Client | null = null;
  #reportLoss: ((id: string, reason: LossReason, detail?: string) => void) | null = null;
  #outages = 0;

  constructor(system: System, namespace: string) {
    this.#system = system;
    this.#namespace = namespace;
    this.#server = this.#world.serverOf(system);
    this.#other = this.#clientOf(this.#world.open({ namespace, system, allow: [] }));
  }

  open(env: StoreEnv): Promise<OpenStore> {
    return this.#ask(() => {
      const store = this.#world.open(env);
      this.#own = this.#clientOf(store);
      return Promise.resolve(this.#reachable(store));
    });
  }

  /** Makes the store unreachable. Returns a function that ends the outage. */
  takeDown(): () => void {
    this.#outages += 1;
    return once(() => {
      this.#outages -= 1;
    });
  }

  /** Takes the key as another process and renews it. Returns a function that releases it. */
  occupy(key: string, label: string): () => void {
    const request = this.#requestOf(key, label);
    const answer = this.#notify(this.#server.attempt(this.#other, request));
    if (!("granted" in answer)) throw this.#occupied(key);
    const { fences } = answer.granted;
    const item = { request, cookie: null, ttlMs: TTL_MS, lastFences: fences, label };
    const renewLater = (): (() => void) =>
      this.#system.after(
        TTL_MS / 3,
        () => {
          this.#notify(this.#server.renew(this.#other, [item]));
          cancel = renewLater();
        },
        "background",
      );
    let cancel = renewLater();
    return once(() => {
      cancel();
      this.#notify(this.#server.release(this.#other, request, { lastFences: fences }));
    });
  }

  /** Ends all leases of the instance on the key. */
  endLeases(key: string): void {
    checkKey(key);
    const own = this.#own;
    const rows = this.#server.records.get(`${this.#namespace}\0${key}`)?.holders ?? [];
    const ids = rows.filter(({ proc }) => proc === own?.proc).map(({ id }) => id);
    if (own === null || ids.length === 0)
      throw new InvalidArgumentError(
        `key must be held by these locks, got ${showKey(key)}: acquire it first`,
      );
    for (const id of ids) {
      // Notify the holder first, as a real store does: the next holder must not start before that.
      this.#reportLoss?.(id, "gone");
      this.#notify(this.#server.abandon(own, { ...this.#requestOf(key, ""), id }));
    }
  }

  /** Without `direct`, because Jest's fake timers delay its microtasks. */
  #reachable(store: MemoryStore): OpenStore<null> {
    return {
      guarantees: this.guarantees,
      attempt: (request, io) => this.#ask(() => store.attempt(request, io)),
      renew: (items, io) => this.#ask(() => store.renew(items, io)),
      release: (request, cookie, options, io) => this.#ask(() => store.release(request, cookie, options, io)),
      abandon: (requests, io) => this.#ask(() => store.abandon(requests, io)),
      subscribe: (request, wake) => this.#ask(() => store.subscribe(request, wake)),
      owns: (request, cookie, io) => this.#ask(() => store.owns(request, cookie, io)),
      note: (request, cookie, note, io) => this.#ask(() => store.note(request, cookie, note, io)),
      inspect: (key, io) => this.#ask(() => store.inspect(key, io)),
      list: (options, io) => this.#list(store, options, io),
      revoke: (key, options, io) => this.#ask(() => store.revoke(key, options, io)),
      check: (io) => this.#ask(() => store.check(io)),
      onLoss: (report) => {
        this.#reportLoss = report;
        return store.onLoss(report);
      },
      close: () => store.close(),
    };
  }

  async *#list(store: MemoryStore, ...args: Parameters<OpenStore["list"]>): ReturnType<OpenStore["list"]> {
    await this.#ask(() => Promise.resolve());
    yield* store.list(...args);
  }

  #ask<T>(call: () => Promise<T>): Promise<T> {
    if (this.#outages === 0) return call();
    return Promise.reject(
      new StoreUnavailableError("the store is down, because the test has called storeDown()", {
        unsent: true,
      }),
    );
  }

  #clientOf({ proc }: MemoryStore): Client {
    return { proc, namespace: this.#namespace };
  }

  #requestOf(key: string, label: string): Request {
    const id = this.#system.randomId();
    return {
      keys: [checkKey(key)],
      id,
      seq: 1,
      mode: "exclusive",
      permits: 1,
      limit: 1,
      ttlMs: TTL_MS,
      graceMs: 0,
      reservedFences: 0,
      keepMs: 0,
      label,
      actor: id,
      queue: false,
    };
  }

  #occupied(key: string): InvalidArgumentError {
    const { answer } = this.#server.inspect(this.#other, key);
    const label = answer?.holders[0]?.label;
    const by = label === undefined ? "" : ` by ${JSON.stringify(label)}`;
    return new InvalidArgumentError(`${showKey(key)} is already held${by}: release it before calling busy()`);
  }

  #notify<T>({ answer, wakes }: Step<T>): T {
    for (const wake of wakes) this.#world.push(wake);
    return answer;
  }
}

/** Only the first call has an effect. */
function once(fn: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) fn();
    isDone = true;
  };
}
