// Planted mistakes: the memory store with one rule broken each, and the case that must notice it.

import type { Request } from "../../src/core/store.ts";
import type { MemoryStore } from "../../src/stores/memory/store.ts";
import { holderInfo, type HolderRow, type WaiterRow } from "../../src/stores/shared/record.ts";
import type { GlassWorld } from "./fixture.ts";

export interface Mutant {
  readonly mistake: string;
  /** Ids of cases, each of which must fail. */
  readonly caughtBy: readonly string[];
  /** Breaks a rule of the opened store. */
  plant(store: MemoryStore, world: GlassWorld): void;
}

/** Makes `hide` true for the length of an attempt: the rows that it names are not there. */
export function blindAttempt(
  store: MemoryStore,
  world: GlassWorld,
  hide: {
    waiter?(row: WaiterRow, request: Request): boolean;
    holder?(row: HolderRow, request: Request): boolean;
  },
): void {
  const attempt = store.attempt.bind(store);
  store.attempt = (request, io) => {
    const back: (() => void)[] = [];
    for (const record of world.records(request.keys)) {
      const waiters = record.line.filter((row) => hide.waiter?.(row, request));
      const holders = record.holders.filter((row) => hide.holder?.(row, request));
      record.line = record.line.filter((row) => !waiters.includes(row));
      record.holders = record.holders.filter((row) => !holders.includes(row));
      back.push(() => {
        record.line.unshift(...waiters);
        record.holders.unshift(...holders);
      });
    }
    const answer = attempt(request, io);
    for (const restore of back) restore();
    return answer;
  };
}

/** Changes every request before the store sees it. */
export function bend(store: MemoryStore, change: (request: Request) => Request): void {
  const attempt = store.attempt.bind(store);
  store.attempt = (request, io) => attempt(change(request), io);
}

export const ownershipMutants: readonly Mutant[] = [
  {
    mistake: "a release does not look at the owner",
    caughtBy: ["exclusion/foreign-release", "exclusion/stale-release", "exclusion/release-twice"],
    plant(store, world) {
      const release = store.release.bind(store);
      store.release = (request, cookie, options, io) => {
        const id = world.records(request.keys)[0]?.holders[0]?.id ?? request.id;
        return release({ ...request, id }, cookie, options, io);
      };
    },
  },
  {
    mistake: "a renewal recreates what is gone",
    caughtBy: ["ends/no-resurrection"],
    plant(store) {
      const renew = store.renew.bind(store);
      store.renew = async (items, io) => {
        for (const { request } of items) await store.attempt({ ...request, queue: false }, io);
        return renew(items, io);
      };
    },
  },
  {
    mistake: "a renewal does not look at the owner",
    caughtBy: ["exclusion/foreign-renewal", "ends/renewal-in-batch", "revoke/force"],
    plant(store) {
      store.renew = (items) =>
        Promise.resolve(items.map(({ ttlMs }) => ({ state: "renewed", validMs: ttlMs }) as const));
    },
  },
  {
    mistake: "a holder is not seen now and then",
    caughtBy: ["exclusion/second-owner", "api/counter", "names/exact"],
    plant(store, world) {
      let calls = 0;
      blindAttempt(store, world, { holder: (_row, request) => request.limit === 1 && ++calls % 2 === 1 });
    },
  },
  {
    mistake: "the mark of ended ids is forgotten",
    caughtBy: ["attempts/after-release", "attempts/after-abandon", "several/abandon"],
    plant(store) {
      const attempt = store.attempt.bind(store);
      store.attempt = async (request, io) => {
        const answer = await attempt(request, io);
        return "ended" in answer ? attempt({ ...request, id: `${request.id}, again` }, io) : answer;
      };
    },
  },
  {
    mistake: "an abandoned holder keeps the key",
    caughtBy: ["attempts/abandon-frees", "order/abandoned-choice", "revoke/soft"],
    plant(store, world) {
      const abandon = store.abandon.bind(store);
      const holds = ({ keys, id }: Request): boolean =>
        world.records(keys).some((record) => record.holders.some((row) => row.id === id));
      store.abandon = (requests, io) =>
        abandon(
          requests.filter((request) => !holds(request)),
          io,
        );
    },
  },
  {
    mistake: "an attempt without a queue takes a place",
    caughtBy: ["attempts/no-place"],
    plant: (store) => bend(store, (request) => ({ ...request, queue: true })),
  },
  {
    mistake: "a revoke is ignored",
    caughtBy: ["revoke/soft", "revoke/soft-silent", "revoke/force", "fences/revoke", "api/revoke-force"],
    plant(store) {
      store.revoke = () => Promise.resolve("revoked");
    },
  },
  {
    mistake: "a revoke does not look at the fence",
    caughtBy: ["revoke/nobody", "revoke/one-of-many"],
    plant(store) {
      const revoke = store.revoke.bind(store);
      store.revoke = (key, { reason, force }, io) => revoke(key, { reason, force }, io);
    },
  },
  {
    mistake: "a soft revoke frees the key at once",
    caughtBy: ["revoke/soft", "revoke/soft-silent"],
    plant(store) {
      const revoke = store.revoke.bind(store);
      store.revoke = (key, options, io) => revoke(key, { ...options, force: true }, io);
    },
  },
];

export const timeMutants: readonly Mutant[] = [
  {
    mistake: "the grace is forgotten",
    caughtBy: ["ends/not-before-ttl"],
    plant: (store) => bend(store, (request) => ({ ...request, graceMs: 0 })),
  },
  {
    mistake: "a grant is said to be valid for longer than it is kept",
    caughtBy: ["ends/validity", "attempts/re-armed"],
    plant(store) {
      const renew = store.renew.bind(store);
      store.renew = async (items, io) => {
        const answers = await renew(items, io);
        return answers.map((one) => (one.state === "renewed" ? { ...one, validMs: one.validMs * 2 } : one));
      };
      const attempt = store.attempt.bind(store);
      store.attempt = async (request, io) => {
        const answer = await attempt(request, io);
        if (!("granted" in answer)) return answer;
        return { granted: { ...answer.granted, validMs: answer.granted.validMs * 2 } };
      };
    },
  },
  {
    mistake: "an attempt of who holds already does not move the end",
    caughtBy: ["attempts/re-armed"],
    plant(store, world) {
      const attempt = store.attempt.bind(store);
      store.attempt = (request, io) => {
        const rows = world
          .records(request.keys)
          .flatMap((record) => record.holders.filter((row) => row.id === request.id));
        const ends = rows.map((row) => row.until);
        const answer = attempt(request, io);
        rows.forEach((row, i) => {
          row.until = ends[i] ?? row.until;
        });
        return answer;
      };
    },
  },
  {
    mistake: "a waiter that was chosen gets its claim window and not its ttl",
    caughtBy: ["wakes/full-ttl"],
    plant(store, world) {
      const attempt = store.attempt.bind(store);
      store.attempt = async (request, io) => {
        const chosen = world
          .records(request.keys)
          .some((record) => record.holders.some(({ id }) => id === request.id));
        const answer = await attempt(request, io);
        if (!chosen || !("granted" in answer)) return answer;
        return { granted: { ...answer.granted, validMs: Math.min(1_000, request.ttlMs) } };
      };
    },
  },
  {
    mistake: "a busy answer lists everybody",
    caughtBy: ["semaphores/busy"],
    plant(store, world) {
      const attempt = store.attempt.bind(store);
      store.attempt = async (request, io) => {
        const answer = await attempt(request, io);
        if (!("busy" in answer)) return answer;
        const rows = world.records(request.keys).flatMap((record) => record.holders);
        return { busy: { ...answer.busy, holders: rows.map((row) => holderInfo(row, 0)) } };
      };
    },
  },
  {
    mistake: "a chosen waiter holds for its whole ttl although it is silent",
    caughtBy: ["order/silent-waiter"],
    plant(store, world) {
      const release = store.release.bind(store);
      store.release = (request, cookie, options, io) => {
        const answer = release(request, cookie, options, io);
        for (const row of world.records(request.keys).flatMap((record) => record.holders))
          row.until += 60_000;
        return answer;
      };
    },
  },
  {
    mistake: "keepMs is forgotten",
    caughtBy: ["keep/release", "keep/abandon", "keep/expiry", "keep/closed-store", "api/once"],
    plant: (store) => bend(store, (request) => ({ ...request, keepMs: 0 })),
  },
  {
    mistake: "nobody is ever pushed to",
    caughtBy: ["wakes/by-push"],
    plant(store) {
      store.subscribe = () => Promise.resolve(() => {});
    },
  },
  {
    mistake: "a push reaches who no longer listens",
    caughtBy: ["hygiene/unsubscribed"],
    plant(store) {
      const subscribe = store.subscribe.bind(store);
      store.subscribe = async (request, wake) => {
        await subscribe(request, wake);
        return () => wake();
      };
    },
  },
];
