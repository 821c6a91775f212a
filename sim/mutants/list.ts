// Mistakes that people make in a lock, as edits of the real source. Each must be caught by the checker named with it: a
// checker that cannot see its mistake is none.

import type { SimStoreName } from "../settings.ts";

export interface Mutant {
  readonly name: string;
  /** Whose worlds see it; absent: memory. */
  readonly store?: SimStoreName;
  readonly file: string;
  readonly edits: readonly { readonly find: string; readonly put: string; readonly file?: string }[];
  /** Any of these checkers may be the one that sees it. */
  readonly killers: readonly string[];
}

export const mutants: readonly Mutant[] = [
  {
    name: "window from the reply",
    file: "core/acquire/acquisition.ts",
    edits: [
      {
        find: "this.#take(answer.granted, sentAt)",
        put: "this.#take(answer.granted, holds.now())",
      },
      {
        file: "core/acquire/first-attempt.ts",
        find: "answer.granted, this.#sentAt as Instant, now)",
        put: "answer.granted, now, now)",
      },
    ],
    killers: ["windowHonesty"],
  },
  {
    name: "window from the first send of a waiter",
    file: "core/acquire/acquisition.ts",
    edits: [
      {
        find: "const sentAt = first?.sentAt ?? holds.now();",
        put: "const sentAt = ((this as { first?: Instant }).first ??= first?.sentAt ?? holds.now());",
      },
    ],
    killers: ["fullTtl", "recovery", "bounds", "leftovers", "wakeUp", "windowHonesty"],
  },
  {
    name: "wall clock",
    file: "core/lease/validity-window.ts",
    edits: [
      {
        find: "return Math.max(mono, now.bootMs - since.bootMs, now.wallMs - since.wallMs);",
        put: "return now.wallMs - since.wallMs;",
      },
    ],
    killers: ["windowHonesty", "exclusion", "lossInTime"],
  },
  {
    name: "no grace and no drift",
    file: "core/lease/validity-window.ts",
    edits: [
      { find: "return Math.max(50, ttlMs / 10);", put: "return ttlMs * 0;" },
      {
        find: 'return clock === "machine" ? validMs : validMs - validMs * DRIFT - 1;',
        put: 'return clock === "machine" ? validMs : validMs + validMs * DRIFT * 10;',
      },
    ],
    killers: ["windowHonesty", "exclusion"],
  },
  {
    name: "no owner check on release",
    file: "stores/shared/rows.ts",
    edits: [
      {
        find: "return record.holders.find((row) => row.id === id);",
        put: "return record.holders.find((row) => row.id === id) ?? record.holders.find((row) => row.id.length > 0 && id.length > 0);",
      },
    ],
    killers: ["ownerOnly", "exclusion"],
  },
  {
    name: "renewal after loss",
    file: "core/lease/renewal.ts",
    edits: [
      {
        find: "    if (hold.ended) return;\n    if (answer.state",
        put: "    if (answer.state",
      },
      {
        file: "core/lease/hold.ts",
        find: "    if (this.remaining() === 0) return false;\n",
        put: "    this.#ended = false;\n",
      },
    ],
    killers: ["noRevival", "exclusion", "windowHonesty"],
  },
  {
    name: "thrown renew treated as renewed",
    file: "core/lease/renewal.ts",
    edits: [
      {
        find: "      for (const hold of batch) this.#retry(hold);\n",
        put: "      for (const hold of batch) {\n        hold.renewed(sentAt, hold.ttlMs);\n        this.#schedule(hold);\n        this.#listener.renewed(hold);\n      }\n",
      },
    ],
    killers: ["windowHonesty", "exclusion"],
  },
  {
    name: "subscribe after check, without a second look",
    file: "core/acquire/acquisition.ts",
    edits: [
      {
        find: "        await this.#subscribe();\n        continue;\n",
        put: "        await this.#subscribe();\n",
      },
      { find: "      return answer.busy.againMs;", put: "      return answer.busy.againMs * 1_000_000;" },
    ],
    killers: ["recovery", "wakeUp", "bounds", "leftovers"],
  },
  {
    name: "no re-check after wake",
    file: "core/acquire/acquisition.ts",
    edits: [
      {
        find: "    this.#woken = true;\n    this.#resume?.();\n",
        put: "",
      },
      { find: "      return answer.busy.againMs;", put: "      return answer.busy.againMs * 1_000_000;" },
    ],
    killers: ["recovery", "wakeUp", "leftovers", "bounds"],
  },
  {
    name: "a reserved key is granted for the claim window",
    file: "stores/shared/ledger.ts",
    edits: [
      {
        find: "        validMs: request.ttlMs,\n",
        put: "        validMs: request.seq === 1 ? request.ttlMs : Math.min(1_000, request.ttlMs),\n",
      },
    ],
    killers: ["fullTtl"],
  },
  {
    name: "abandon forgotten after a timeout",
    file: "core/lease/abandonment.ts",
    edits: [
      {
        find: "      else this.#enqueue(pending, nowMs);\n",
        put: "      else this.#drop(pending);\n",
      },
    ],
    killers: ["recovery", "leftovers", "wakeUp", "bounds"],
  },
  {
    name: "an unknown outcome counts as not sent",
    file: "core/acquire/first-attempt.ts",
    edits: [{ find: "if (isUnsent(error)) this", put: "if (isUnsent(error) || error !== null) this" }],
    killers: ["recovery", "leftovers", "wakeUp", "bounds"],
  },
  {
    name: "hand-off after the window",
    file: "core/acquire/local-queue.ts",
    edits: [
      { find: "hold.remaining() >= hold.termMs * FRESH_SHARE", put: "!hold.ended" },
      { find: "this.#sliceLeftMs(hold) > 0 &&", put: "this.#deps.handoffMs > 0 &&" },
      {
        find: "this.#deps.system.after(this.#sliceLeftMs(hold), () => {",
        put: "this.#deps.system.after(Math.max(5, this.#sliceLeftMs(hold)), () => {",
      },
      {
        file: "core/acquire/lock-manager.ts",
        find: "if (lease.leftMs === 0) {\n      this.holds",
        put: "if (lease.lost !== null) {\n      this.holds",
      },
    ],
    killers: ["oneOutcome", "exclusion", "windowHonesty"],
  },
  {
    name: "hand-off without a new fence",
    file: "core/lease/hold.ts",
    edits: [{ find: "    this.#passed = Math.min(", put: "    this.#passed *= Math.min(" }],
    killers: ["fences"],
  },
  {
    name: "permits counted per process",
    file: "stores/shared/rows.ts",
    edits: [
      {
        find: "if (waiter.limit > 1) return sum(record.holders) + waiter.permits <= waiter.limit;",
        put: "if (waiter.limit > 1) return sum(record.holders.filter((row) => row.proc === (waiter as { proc?: string }).proc)) + waiter.permits <= waiter.limit;",
      },
    ],
    killers: ["exclusion"],
  },
  {
    name: "close releases keys under running callbacks",
    file: "core/shutdown.ts",
    edits: [
      {
        find: "this.#drainUntil(system.monoMs() + drainMs);\n    this.#checkDrained();",
        put: "this.#end();",
      },
      { find: "for (const lease of manager?.leases() ?? []) manager?.loseToClose(lease);\n", put: "" },
      { find: "for (const section of lease.sections) section.notifyClosed();\n", put: "" },
      {
        find: "interrupt(lease.lost ?? (lease.signal.reason as Error));",
        put: "if (lease.lost !== null) interrupt(lease.lost);",
      },
    ],
    killers: ["notified", "exclusion"],
  },
  {
    name: "close does not abort the signal",
    file: "core/lease/lease.ts",
    edits: [
      { find: "    this.abort(this.#closing);\n", put: "" },
      {
        find: "    this.#controller?.abort(this.#lost);\n",
        put: '    if (reason !== "closed") this.#controller?.abort(this.#lost);\n',
      },
    ],
    killers: ["notified"],
  },
  {
    name: "close forgets attempts in flight",
    file: "core/acquire/lock-manager.ts",
    edits: [{ find: "queue.stop(closedError(queue.keys));", put: "void queue.keys;" }],
    killers: ["leftovers", "recovery", "wakeUp", "bounds", "oneOutcome"],
  },
  {
    name: "some of several keys are enough",
    file: "stores/shared/ledger.ts",
    edits: [
      {
        find: "const records = next.keys === undefined ? [record] : this.#recordsOf(next);",
        put: "const records = next.keys === undefined || next.keys.length > 1 ? [record] : this.#recordsOf(next);",
      },
      {
        find: "const rows = records.map((record) => holder(record, request.id) as HolderRow);",
        put: "const rows = records.map((record) => holder(record, request.id) as HolderRow).filter(Boolean);",
      },
      {
        find: "const rows = records.map((record) => holder(record, id) as HolderRow);",
        put: "const rows = records.map((record) => holder(record, id) as HolderRow).filter(Boolean);",
      },
      {
        file: "stores/shared/rows.ts",
        find: "return records.every((record) => holder(record, id) !== undefined);",
        put: "return records.some((record) => holder(record, id) !== undefined);",
      },
    ],
    killers: ["allOrNone"],
  },
  {
    name: "no note says what a holder waits for",
    file: "core/deadlock/note-writer.ts",
    edits: [{ find: "note === null ? null : { waitingFor: note }", put: "null" }],
    killers: ["deadlocks"],
  },
  {
    name: "everybody in a circle gives way",
    file: "core/deadlock/detector.ts",
    edits: [
      {
        find: "for (const lease of own.get(nameOf(youngest(knot.records))) ?? []) {",
        put: "for (const lease of [...own.values()].flat()) {",
      },
    ],
    killers: ["deadlocks"],
  },
  {
    name: "siblings in one scope are one actor",
    file: "core/locks.ts",
    edits: [
      {
        find: "return this.#newActor(Actor.current());",
        put: "return Actor.current() ?? this.#newActor(null);",
      },
    ],
    killers: ["deadlocks", "exclusion"],
  },
  {
    name: "a call is nested in no scope",
    file: "core/locks.ts",
    edits: [
      {
        find: "return this.#newActor(within.actor.live);",
        put: "return this.#newActor(within.actor.live === null ? within.actor : null);",
      },
    ],
    killers: ["deadlocks"],
  },
  {
    name: "a semaphore is granted beside a lock",
    file: "stores/shared/rows.ts",
    edits: [{ find: "if (waiter.limit > 1 !== record.limit > 1) return false;", put: "" }],
    killers: ["exclusion"],
  },
];
