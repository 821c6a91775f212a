// Planted mistakes in the rules of the line, the fences, the kinds and the names.

import type { Request } from "../../src/core/store.ts";
import { bend, blindAttempt, type Mutant } from "./mutants.ts";

export const ruleMutants: readonly Mutant[] = [
  {
    mistake: "the line is not first in, first out",
    caughtBy: ["order/fifo", "order/place-kept", "shared/readers-not-starved", "api/order"],
    plant(store, world) {
      const release = store.release.bind(store);
      store.release = (request, cookie, options, io) => {
        for (const record of world.records(request.keys)) record.line.reverse();
        return release(request, cookie, options, io);
      };
    },
  },
  {
    mistake: "every heartbeat goes to the end of the line",
    caughtBy: ["order/place-kept"],
    plant(store, world) {
      const attempt = store.attempt.bind(store);
      store.attempt = (request, io) => {
        for (const record of world.records(request.keys)) {
          record.line = record.line.filter((row) => row.id !== request.id);
        }
        return attempt(request, io);
      };
    },
  },
  {
    mistake: "whoever will not wait overtakes the line",
    caughtBy: ["order/no-overtaking"],
    plant: (store, world) =>
      blindAttempt(store, world, { holder: (row, request) => !request.queue && row.label === "patient" }),
  },
  {
    mistake: "a release wakes everybody",
    caughtBy: ["wakes/no-herd"],
    plant(store) {
      const wakes = new Set<() => void>();
      const subscribe = store.subscribe.bind(store);
      store.subscribe = (request, wake) => {
        wakes.add(wake);
        return subscribe(request, () => {
          for (const one of wakes) one();
        });
      };
    },
  },
  {
    mistake: "fences start again after a release",
    caughtBy: ["fences/release", "fences/reopen", "fences/wall-clock-back"],
    plant(store, world) {
      const release = store.release.bind(store);
      store.release = async (request, cookie, options, io) => {
        const answer = await release(request, cookie, options, io);
        for (const record of world.records(request.keys)) record.last = 0;
        return answer;
      };
    },
  },
  {
    mistake: "the room of a grant is forgotten",
    caughtBy: ["fences/revoke", "fences/wall-clock-back"],
    plant(store, world) {
      const attempt = store.attempt.bind(store);
      store.attempt = (request, io) => {
        const answer = attempt(request, io);
        for (const record of world.records(request.keys)) {
          for (const row of record.holders) record.last = row.fence;
        }
        return answer;
      };
    },
  },
  {
    mistake: "a try that is delivered twice is granted the second time",
    caughtBy: ["attempts/repeated-try"],
    plant(store) {
      const attempt = store.attempt.bind(store);
      let sends = 0;
      store.attempt = (request, io) => {
        sends += 1;
        const id = request.queue ? request.id : sends.toString(16).padStart(32, "0");
        return attempt({ ...request, id }, io);
      };
    },
  },
  {
    mistake: "an attempt that is repeated gets a new fence",
    caughtBy: ["attempts/idempotent", "ends/renewal-moves-the-end"],
    plant(store, world) {
      const attempt = store.attempt.bind(store);
      store.attempt = (request, io) => {
        for (const record of world.records(request.keys)) {
          for (const row of record.holders) if (row.id === request.id) row.fence += 1;
        }
        return attempt(request, io);
      };
    },
  },
  {
    mistake: "readers have a common fence",
    caughtBy: ["fences/shared-holders", "api/shared"],
    plant(store, world) {
      const attempt = store.attempt.bind(store);
      store.attempt = async (request, io) => {
        const answer = await attempt(request, io);
        if (!("granted" in answer) || request.mode !== "shared") return answer;
        const fences = world.records(request.keys).map(({ holders }) => BigInt(holders[0]?.fence ?? 0));
        return { granted: { ...answer.granted, fences } };
      };
    },
  },
  {
    mistake: "readers starve a writer",
    caughtBy: ["shared/writer-not-starved"],
    plant: (store, world) =>
      blindAttempt(store, world, {
        waiter: (row, request) => request.mode === "shared" && row.mode === "exclusive",
      }),
  },
  {
    mistake: "a writer overtakes the readers before it",
    caughtBy: ["shared/readers-not-starved"],
    plant(store, world) {
      const release = store.release.bind(store);
      store.release = (request, cookie, options, io) => {
        for (const record of world.records(request.keys)) {
          record.line.sort((a, b) => Number(a.mode === "shared") - Number(b.mode === "shared"));
        }
        return release(request, cookie, options, io);
      };
    },
  },
  {
    mistake: "a reader gets in beside a writer",
    caughtBy: ["shared/excludes", "api/shared"],
    plant: (store, world) =>
      blindAttempt(store, world, { holder: (_row, request) => request.mode === "shared" }),
  },
  {
    mistake: "permits go over the limit",
    caughtBy: ["semaphores/limit", "semaphores/expiry", "api/semaphore"],
    plant: (store, world) =>
      blindAttempt(store, world, { holder: (row, request) => request.limit > 1 && row.permits > 1 }),
  },
  {
    mistake: "a small request overtakes a large one",
    caughtBy: ["semaphores/large-request"],
    plant: (store, world) =>
      blindAttempt(store, world, { waiter: (row, request) => row.permits > request.permits }),
  },
  {
    mistake: "whoever comes decides whether the key is a lock or a semaphore",
    caughtBy: ["semaphores/lock"],
    plant(store, world) {
      const attempt = store.attempt.bind(store);
      store.attempt = (request, io) => {
        for (const record of world.records(request.keys)) record.limit = request.limit;
        return attempt(request, io);
      };
    },
  },
  {
    mistake: "a part of several keys is granted",
    caughtBy: ["several/none", "several/waits"],
    plant(store, world) {
      const attempt = store.attempt.bind(store);
      store.attempt = async (request, io) => {
        const answer = await attempt(request, io);
        if (request.keys.length === 1 || !("busy" in answer)) return answer;
        for (const record of world.records(request.keys)) {
          record.line = record.line.filter((row) => row.id !== request.id);
        }
        const id = request.queue ? request.id : `f${request.id.slice(1)}`;
        for (const key of request.keys) await attempt({ ...request, id, keys: [key] }, io);
        return answer;
      };
    },
  },
  {
    mistake: "a release of several keys frees the first",
    caughtBy: ["several/all"],
    plant(store) {
      const release = store.release.bind(store);
      store.release = (request, cookie, options, io) =>
        release({ ...request, keys: request.keys.slice(0, 1) }, cookie, options, io);
    },
  },
  {
    mistake: "names are trimmed",
    caughtBy: ["names/exact", "names/listed", "api/names"],
    plant: (store) => bend(store, (request) => rename(request, (key) => key.trim())),
  },
  {
    mistake: "names are normalised",
    caughtBy: ["names/exact", "names/listed"],
    plant: (store) => bend(store, (request) => rename(request, (key) => key.normalize("NFC"))),
  },
  {
    mistake: "names are cut",
    caughtBy: ["names/exact", "names/listed"],
    plant: (store) => bend(store, (request) => rename(request, (key) => key.slice(0, 4_000))),
  },
  {
    mistake: "a note is lost",
    caughtBy: ["reports/note"],
    plant(store) {
      store.note = () => Promise.resolve();
    },
  },
  {
    mistake: "a note is written for whoever holds",
    caughtBy: ["reports/stale-note"],
    plant(store, world) {
      const note = store.note.bind(store);
      store.note = (request, cookie, text, io) => {
        const id = world.records(request.keys)[0]?.holders[0]?.id ?? request.id;
        return note({ ...request, id }, cookie, text, io);
      };
    },
  },
  {
    mistake: "a finding does not say how to fix it",
    caughtBy: ["reports/check"],
    plant(store) {
      store.check = () => Promise.resolve([{ id: "x", level: "warning", what: "x", why: "x", fix: "" }]);
    },
  },
  {
    mistake: "readers are taken for writers",
    caughtBy: ["shared/beside", "fences/shared-holders"],
    plant: (store) => bend(store, (request) => ({ ...request, mode: "exclusive" })),
  },
  {
    mistake: "a fence does not fit a signed 64-bit column",
    caughtBy: ["fences/range"],
    plant(store) {
      const attempt = store.attempt.bind(store);
      store.attempt = async (request, io) => {
        const answer = await attempt(request, io);
        if (!("granted" in answer)) return answer;
        return {
          granted: { ...answer.granted, fences: answer.granted.fences.map((fence) => fence + 2n ** 63n) },
        };
      };
    },
  },
  {
    mistake: "list does not look at the prefix",
    caughtBy: ["reports/list", "api/reports"],
    plant(store) {
      const list = store.list.bind(store);
      store.list = (options, io) => list({ ...options, prefix: "" }, io);
    },
  },
  {
    mistake: "an abandoned waiter stays in line",
    caughtBy: ["attempts/after-abandon", "hygiene/nothing-left", "api/timeout", "api/abort"],
    plant(store, world) {
      const abandon = store.abandon.bind(store);
      store.abandon = async (requests, io) => {
        const keys = requests.flatMap((request) => request.keys);
        const lines = world.records(keys).map((record) => ({ record, line: [...record.line] }));
        const left = await abandon(requests, io);
        for (const { record, line } of lines) record.line = line;
        return left;
      };
    },
  },
];

function rename(request: Request, change: (key: string) => string): Request {
  return { ...request, keys: request.keys.map(change) };
}
