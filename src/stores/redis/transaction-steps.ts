// Every step is one transaction (transactions.ts), decided by the rules of the ledger in this process. For servers that forbid
// scripts, and for exclusive locks on one key only. Records are those of the scripts, so that both ways exclude each other.

import { UnsupportedError } from "../../core/errors.ts";
import type {
  AttemptAnswer,
  Io,
  LockInfo,
  Note,
  RenewAnswer,
  RenewItem,
  Request,
  RevokeAnswer,
  RevokeOptions,
} from "../../core/store.ts";
import { toGrant } from "../shared/grant.ts";
import { Ledger, type Wake } from "../shared/ledger.ts";
import { holderInfo, lockInfo } from "../shared/record.ts";
import { heartbeatFor, holder, unseat } from "../shared/rows.ts";
import { tooFew } from "./acknowledged.ts";
import { redisError } from "./errors.ts";
import { CLAIM_MS } from "./guarantees.ts";
import { PerNode } from "./own-connection.ts";
import type { Word } from "./port.ts";
import { type Kept, lifeMs, readRecord, writeRecord } from "./record-bytes.ts";
import { unknownRenewal } from "./script-steps.ts";
import { DOING, type Steps, type StepsEnv } from "./steps.ts";
import { type Done, Transactions } from "./transactions.ts";

/** One step: the rules, the records that they change, and the server's time. */
interface Step {
  readonly ledger: Ledger;
  readonly kept: readonly Kept[];
  readonly nowMs: number;
}

/** What a step answers, and whether its records are written. */
interface Outcome<T> {
  readonly answer: T;
  readonly write: boolean;
  /** Whether replicas must acknowledge it. */
  readonly wait?: boolean;
}

export class TransactionSteps implements Steps {
  readonly #env: StepsEnv;
  readonly #attempts: PerNode<Transactions>;
  readonly #renewals: PerNode<Transactions>;
  readonly #others: PerNode<Transactions>;
  /** Attempts under way, by id. */
  readonly #attempting = new Map<string, { ended: boolean }>();

  constructor(env: StepsEnv) {
    this.#env = env;
    const { port, replicas } = env;
    const own = (): PerNode<Transactions> =>
      new PerNode(port, (connection) => new Transactions(connection, replicas));
    this.#others = own();
    // Where replicas are waited for, nothing else must stand behind it.
    this.#attempts = replicas === 0 ? this.#others : own();
    this.#renewals = replicas === 0 ? this.#others : own();
  }

  async attempt(
    request: Request,
    _turn: number,
    _open: () => readonly number[],
    io: Io,
  ): Promise<AttemptAnswer<null>> {
    refuseOthers(request);
    const state = { ended: false };
    this.#attempting.set(request.id, state);
    try {
      return await this.#attempt(request, state, io);
    } finally {
      if (this.#attempting.get(request.id) === state) this.#attempting.delete(request.id);
    }
  }

  async #attempt(request: Request, state: { readonly ended: boolean }, io: Io): Promise<AttemptAnswer<null>> {
    const { answer, acks } = await this.#step<AttemptAnswer<null>>(
      this.#attempts,
      "attempt",
      request.keys,
      io,
      ({ ledger, kept, nowMs }) => {
        // The end of this request was written first, over another connection: it must not be granted again.
        if (state.ended) return { answer: { ended: true }, write: false };
        const said = ledger.attempt(request);
        if ("granted" in said) return { answer: { granted: toGrant(said.granted) }, write: true, wait: true };
        if (!("busy" in said)) return { answer: said, write: true };
        const holders = kept.flatMap(({ record }) => record.holders).map((row) => holderInfo(row, nowMs));
        const againMs = heartbeatFor(CLAIM_MS, request.ttlMs);
        // Also for one without a place in line: the key may have passed to somebody in this very step.
        return { answer: { busy: { holders, againMs } }, write: true };
      },
    );
    const why = acks === null ? null : tooFew(acks, this.#env.replicas);
    return why === null ? answer : { unconfirmed: { why } };
  }

  async renew(items: readonly RenewItem<null>[], io: Io): Promise<RenewAnswer[]> {
    const keys = [...new Set(items.flatMap(({ request }) => request.keys))];
    const { answer, acks } = await this.#step(this.#renewals, "renew", keys, io, ({ ledger }) => {
      const answers = items.map(({ request, ttlMs, lastFences, label }): RenewAnswer => {
        const used = lastFences.map(Number);
        const said = ledger.renew(request.keys, request.id, ttlMs, request.graceMs, used, label);
        if (said === "renewed") return { state: "renewed", validMs: ttlMs };
        return said === "gone"
          ? { state: "lost", reason: "gone" }
          : { state: "lost", reason: "revoked", detail: said.revoked };
      });
      const write = answers.some(({ state }) => state === "renewed");
      return { answer: answers, write, wait: true };
    });
    const why = acks === null ? null : tooFew(acks, this.#env.replicas);
    if (why === null) return answer;
    return answer.map((one) => (one.state === "renewed" ? unknownRenewal(why) : one));
  }

  /** Written whatever it finds: an attempt of this id that is still under way is beaten by it, and changes nothing (P8). */
  async end(
    request: Request,
    _turn: number,
    used: readonly string[],
    _open: readonly number[],
    io: Io,
  ): Promise<boolean> {
    const { keys, id } = request;
    const attempting = this.#attempting.get(id);
    if (attempting !== undefined) attempting.ended = true;
    const { answer } = await this.#step(this.#others, "end", keys, io, ({ ledger, kept }) => {
      for (const { record } of kept) unseat(record, id);
      if (!used.includes("")) return { answer: ledger.release(keys, id, used.map(Number)), write: true };
      const held = ledger.owns(keys, id);
      ledger.abandon(keys, id);
      return { answer: held, write: true };
    });
    return answer;
  }

  async owns({ keys, id }: Request, io: Io): Promise<boolean> {
    const { answer } = await this.#step(this.#others, "owns", keys, io, ({ ledger }) => ({
      answer: ledger.owns(keys, id),
      write: false,
    }));
    return answer;
  }

  async note({ keys, id }: Request, note: Note, io: Io): Promise<void> {
    await this.#step(this.#others, "note", keys, io, ({ ledger, kept }) => {
      ledger.note(keys, id, note?.waitingFor ?? null);
      return { answer: null, write: kept.some(({ record }) => holder(record, id) !== undefined) };
    });
  }

  async look(keys: readonly string[], io: Io): Promise<(LockInfo | null)[]> {
    const { answer } = await this.#step(this.#others, "look", keys, io, ({ ledger, kept, nowMs }) => {
      for (const { record } of kept) ledger.sweep(record);
      return { answer: kept.map(({ record }) => lockInfo(record, nowMs)), write: false };
    });
    return answer;
  }

  async revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    const { answer } = await this.#step(this.#others, "revoke", [key], io, ({ ledger, kept }) => {
      const said = ledger.revoke((kept[0] as Kept).record, options);
      return { answer: said, write: said === "revoked" };
    });
    return answer;
  }

  async #step<T>(
    on: PerNode<Transactions>,
    name: keyof typeof DOING,
    keys: readonly string[],
    io: Io,
    decide: (step: Step) => Outcome<T>,
  ): Promise<Done<T>> {
    const records = keys.map((key) => this.#env.names.record(key));
    try {
      return await on.of(records[0] as string).run<T>(
        records,
        (wallUs, values) => {
          const nowMs = wallUs / 1_000;
          const kept = keys.map((key, at) => readRecord(key, values[at] ?? null));
          const ledger = this.#ledger(wallUs, keys, kept);
          const { answer, write, wait = false } = decide({ ledger, kept, nowMs });
          if (!write) return { answer, commands: [], wait: false };
          const saves = kept.map((one, at): Word[] => {
            const life = String(lifeMs(one.record, nowMs));
            return ["SET", records[at] as string, writeRecord(one), "PX", life];
          });
          return { answer, commands: [...saves, ...ledger.wakes.map((wake) => this.#publish(wake))], wait };
        },
        io,
      );
    } catch (error) {
      throw redisError(error, DOING[name], keys[0]);
    }
  }

  #ledger(wallUs: number, keys: readonly string[], kept: readonly Kept[]): Ledger {
    return new Ledger({
      nowMs: wallUs / 1_000,
      wallUs,
      self: this.#env.proc,
      claimMs: CLAIM_MS,
      alive: () => true,
      record: (key) => kept[keys.indexOf(key)]?.record ?? null,
    });
  }

  #publish({ proc, id, grant, revoked }: Wake): string[] {
    const said =
      revoked !== undefined
        ? ["revoked", id, revoked]
        : grant === undefined
          ? ["look", id]
          : ["grant", id, grant.anchor, grant.room, grant.validMs, ...grant.fences];
    return ["PUBLISH", this.#env.names.channels + proc, said.join(" ")];
  }
}

function refuseOthers({ keys, mode, limit, keepMs }: Request): void {
  const kind =
    keys.length > 1
      ? "multi"
      : mode === "shared"
        ? "shared"
        : limit > 1
          ? "semaphore"
          : keepMs > 0
            ? "keep"
            : null;
  if (kind === null) return;
  throw new UnsupportedError(
    `the redis store cannot do ${kind} without scripts: it does exclusive locks only. Allow EVAL and EVALSHA to this user, or use a lock`,
    { key: keys[0] },
  );
}
