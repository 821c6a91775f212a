// Grants that need more than the store's word: a push, which only wakes, and an attempt that could not be
// made sure of. The memory store plays one whose replicas can be taken away.

import { expect, test } from "vitest";
import { LockTimeoutError, StoreUnavailableError } from "./errors.ts";
import { HoldfastLocks } from "./locks.ts";
import { type LocksOptions, readLocksOptions } from "./options.ts";
import type { OpenStore, RenewAnswer, Store } from "./store.ts";
import { memory } from "../stores/memory/index.ts";
import { VirtualSystem } from "../testing/virtual-system.ts";
import { directOver, refusal, within } from "./fixture.ts";

const WHY = "0 of 1 replicas acknowledged it";

class Replicated {
  readonly system = new VirtualSystem({ seed: 1 });
  readonly #inner = memory();
  /** Whether replicas answer. */
  attached = true;
  attempts = 0;
  #held: (() => void)[] = [];
  /** Answers to attempts wait until `letAnswer`. */
  holdAnswers = false;

  letAnswer(): void {
    this.holdAnswers = false;
    for (const go of this.#held) go();
    this.#held = [];
  }

  store(): Store {
    return { ...this.#inner, open: async (env) => this.#wrap(await this.#inner.open(env)) };
  }

  #wrap(open: OpenStore): OpenStore {
    const wrapped: Partial<OpenStore> = {
      attempt: async (request, io) => {
        this.attempts += 1;
        const answer = await open.attempt(request, io);
        if (this.holdAnswers) await new Promise<void>((resolve) => this.#held.push(resolve));
        return "granted" in answer && !this.attached ? { unconfirmed: { why: WHY } } : answer;
      },
      renew: async (items, io) => {
        const answers = await open.renew(items, io);
        const unknown: RenewAnswer = { state: "unknown", cause: new StoreUnavailableError(WHY) };
        return this.attached ? answers : items.map(() => unknown);
      },
    };
    const seen: OpenStore = new Proxy(open, {
      get: (target, name) => {
        if (name === "direct") return directOver(seen);
        const mine: unknown = Reflect.get(wrapped, name);
        if (mine !== undefined) return mine;
        const value: unknown = Reflect.get(target, name);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
    return seen;
  }

  locks(options: LocksOptions = {}): HoldfastLocks {
    return new HoldfastLocks(this.store(), this.system, readLocksOptions(options, "p:1"));
  }

  others(): HoldfastLocks {
    return new HoldfastLocks(this.#inner, this.system, readLocksOptions({ label: "other" }, "p:2"));
  }
}

test("a pushed grant is the caller's only after an attempt of its own (P2)", async () => {
  const world = new Replicated();
  const holder = await world.others().acquire("k");
  const waiting = world.locks().acquire("k");
  await world.system.advance(50);
  world.holdAnswers = true;
  const before = world.attempts;
  let got = false;
  void waiting.then(() => (got = true));
  await holder.release();
  await world.system.settle();
  expect({ attempts: world.attempts - before, got }).toEqual({ attempts: 1, got: false });
  world.letAnswer();
  const lease = await within(world.system, 100, waiting);
  expect(lease.remaining).toBeGreaterThan(29_000);
  expect(lease.fence).toBeGreaterThan(holder.fence);
});

test("a pushed grant that is not confirmed is given back, and the wait goes on (P8)", async () => {
  const world = new Replicated();
  const others = world.others();
  const holder = await others.acquire("k");
  const waiting = world.locks().acquire("k", { wait: "10s" });
  await world.system.advance(50);
  world.attached = false;
  await holder.release();
  await world.system.advance(1_000);
  world.attached = true;
  const lease = await within(world.system, 2_000, waiting);
  expect(lease.held).toBe(true);
  await lease.release();
  expect(await others.inspect("k")).toBeNull();
});

test("at its deadline a wait without confirmation ends with the reason, and leaves nothing (P13, P16, P17)", async () => {
  const world = new Replicated();
  const others = world.others();
  world.attached = false;
  const waiting = world.locks().acquire("k", { wait: 700 });
  const since = world.system.monoMs();
  const error = await refusal(within(world.system, 3_000, waiting));
  expect(error).toBeInstanceOf(StoreUnavailableError);
  expect(error.message).toContain(WHY);
  expect(world.system.monoMs() - since).toBeLessThan(800);
  await world.system.advance(100);
  expect(await others.inspect("k")).toBeNull();
  const attempts = world.attempts;
  await world.system.advance(10_000);
  expect(world.attempts).toBe(attempts);
});

test("an attempt that could not be made sure of is refused at once by tryAcquire, and given back (P8)", async () => {
  const world = new Replicated();
  world.attached = false;
  const error = await refusal(world.locks().tryAcquire("k"));
  expect(error).toBeInstanceOf(StoreUnavailableError);
  expect(error.message).toContain(WHY);
  await world.system.settle();
  expect(await world.others().inspect("k")).toBeNull();
});

test("a task whose deadline comes while its grant is being confirmed still gets it", async () => {
  const world = new Replicated();
  const holder = await world.others().acquire("k");
  const waiting = world.locks().acquire("k", { wait: 500 });
  await world.system.advance(400);
  world.holdAnswers = true;
  await holder.release();
  await world.system.advance(200);
  world.letAnswer();
  expect((await within(world.system, 100, waiting)).held).toBe(true);
});

test("a wait that was given up while its grant was being confirmed never asks again (P16)", async () => {
  const world = new Replicated();
  const others = world.others();
  const holder = await others.acquire("k");
  const controller = new AbortController();
  const locks = world.locks();
  const waiting = locks.acquire("k", { wait: "10s", signal: controller.signal });
  waiting.catch(() => {});
  await world.system.advance(50);
  world.holdAnswers = true;
  world.attached = false;
  await holder.release();
  await world.system.settle();
  controller.abort();
  const { attempts } = world;
  world.letAnswer();
  await world.system.advance(10_000);
  expect(world.attempts).toBe(attempts);
  expect(await others.inspect("k")).toBeNull();
  expect(await refusal(waiting)).not.toBeInstanceOf(LockTimeoutError);
});
