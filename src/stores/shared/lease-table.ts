// The contract on a table of leases, for every SQL database that can do what table.ts asks for. An uncontended acquire and its
// release are one statement each; everything else is a step of the rules over the rows (table-steps.ts).
// It never waits on its own account and sets no timer: old rows are cleaned away on the occasion of other calls.

import type {
  AttemptAnswer,
  Finding,
  Guarantees,
  Io,
  LockInfo,
  LossReason,
  Note,
  OpenStore,
  ReleaseOptions,
  RenewAnswer,
  RenewItem,
  Request,
  RevokeAnswer,
  RevokeOptions,
  StoreEnv,
  TransactionDesk,
} from "../../core/store.ts";
import {
  isUnsent,
  markUnsent,
  StoreUnavailableError,
  UnsafeStoreError,
  UnsupportedError,
} from "../../core/errors.ts";
import type { System } from "../../core/system.ts";
import { abandonEach } from "./abandon-each.ts";
import { toBusy } from "./busy.ts";
import { toGrant } from "./grant.ts";
import { Pushes } from "./pushes.ts";
import { holderInfo, lockInfo } from "./record.ts";
import { heartbeatFor, unseat } from "./rows.ts";
import { reserving } from "./table-reserve.ts";
import type { Beat, Patience, RowName, Table, TableRow } from "./table.ts";
import { TableCleaner } from "./table-cleaner.ts";
import { hasEnded, type Kept, keptOf, markEnded } from "./table-record.ts";
import { TableShortcut } from "./table-shortcut.ts";
import { type Decision, type Step, TableSteps } from "./table-steps.ts";
import { Turns } from "./turns.ts";

const PROC_LENGTH = 16;
/** Of a call's timeout: by then the renewals that have succeeded are answered, whatever the others do. */
const RENEW_SHARE = 0.7;
const LOCKED_AT_ONCE = 2;
/** Of the few connections that a process has. */
const ABANDONED_AT_ONCE = 2;

export class LeaseTable implements OpenStore<null> {
  readonly guarantees: Guarantees;
  readonly #table: Table;
  readonly #steps: TableSteps;
  readonly #cleaner: TableCleaner;
  readonly #pushes = new Pushes();
  readonly #turns = new Turns();
  readonly #shortcut: TableShortcut;
  readonly #system: System;
  readonly #proc: string;
  readonly #name: string;
  #closed = false;

  constructor(name: string, table: Table, guarantees: Guarantees, env: StoreEnv) {
    this.#name = name;
    this.#table = table;
    this.guarantees = guarantees;
    this.#system = env.system;
    this.#proc = procOf(env.system);
    this.#cleaner = new TableCleaner(table, env.system);
    this.#steps = new TableSteps(table, this.#pushes, {
      system: env.system,
      namespace: env.namespace,
      proc: this.#proc,
      claimMs: guarantees.claimMs,
    });
    this.#shortcut = new TableShortcut(table, this.#steps, this.#turns, this.#proc);
  }

  /** Pushes may arrive from now on. */
  async start(): Promise<this> {
    await this.#table.listen?.(this.#proc, (words) => this.#pushes.hear(words));
    return this;
  }

  attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    const turn = this.#turns.number(request);
    if (turn === null) return Promise.resolve({ ended: true });
    return this.#do("try for the lock", request.keys, async () => {
      const call = this.#counted(request, io);
      const answer =
        (await this.#shortcut.grab(request, turn, call)) ?? (await this.#attempt(request, turn, call));
      // The statement of an attempt without a place in line is over with its answer, so nobody but us has to remember it.
      if ("ended" in answer || ("busy" in answer && !request.queue)) this.#turns.end(request);
      this.#cleaner.now(io);
      return answer;
    });
  }

  /** Notes when a statement of an attempt leaves, and keeps it from leaving once its request has ended. */
  #counted(request: Request, io: Io): Io & Pick<Patience, "sent"> {
    const sent = (): void => {
      if (!this.#turns.sent(request)) throw new Error("its request has ended");
    };
    return {
      timeoutMs: io.timeoutMs,
      get signal() {
        return io.signal;
      },
      sleep: (ms) => io.sleep(ms),
      sent,
    };
  }

  renew(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    return this.#do("renew the lease", items[0]?.request.keys ?? [], async () => {
      const extended = await this.#shortcut.extend(items, io);
      const left = items.filter((item) => extended.get(item) !== "renewed");
      const answers = await this.#renewOneByOne(
        left.filter((item) => extended.get(item) !== "locked"),
        left.filter((item) => extended.get(item) === "locked"),
        io,
      );
      return items.map((item) => answers.get(item) ?? { state: "renewed", validMs: item.ttlMs });
    });
  }

  release(
    request: Request,
    _cookie: null,
    options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    return this.#do("be told of the release", request.keys, async () => {
      const used = options.lastFences.map(Number);
      if (await this.#shortcut.drop(request, used[0], io)) return "released";
      return (await this.#end(request, used, io)) ? "released" : "not-held";
    });
  }

  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    return abandonEach(
      requests,
      io,
      (request, once) =>
        this.#do("be told that the request has ended", request.keys, () => this.#end(request, null, once)),
      ABANDONED_AT_ONCE,
    );
  }

  forget(request: Request): void {
    this.#turns.end(request);
  }

  /** Of the many calls of an outage only a few get a connection. */
  forgetUnsent(request: Request): boolean {
    if (!this.#turns.isUnsent(request)) return false;
    this.#turns.end(request);
    return true;
  }

  async subscribe(request: Request, wake: () => void): Promise<() => void> {
    const off = this.#pushes.add(request.id, wake);
    await this.#table.listen?.(this.#proc, (words) => this.#pushes.hear(words));
    return off;
  }

  onLoss(tell: (id: string, reason: LossReason, detail?: string) => void): () => void {
    return this.#pushes.onLoss(tell);
  }

  owns(request: Request, _cookie: null, io: Io): Promise<boolean> {
    return this.#look("be asked for the owner", request.keys, io, ({ ledger }) =>
      ledger.owns(request.keys, request.id),
    );
  }

  note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    return this.#do("write the note", request.keys, () =>
      this.#step(request.keys, io, ({ ledger }) => ({
        answer: ledger.note(request.keys, request.id, note?.waitingFor ?? null),
        writes: true,
      })),
    );
  }

  inspect(key: string, io: Io): Promise<LockInfo | null> {
    return this.#look("be asked who holds the lock", [key], io, ({ ledger, kept, nowMs }) => {
      const { record } = kept[0] as Kept;
      ledger.sweepLine(record);
      return lockInfo(record, nowMs);
    });
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    let [left, after] = [options.limit, null as string | null];
    while (left > 0) {
      const from = after;
      const page = await this.#do("list the locks", [], () => this.#table.list(options.prefix, from, io));
      for (const { key, row, beats } of page.rows) {
        const info = this.#infoOf(key, row, beats, page.nowUs);
        if (info !== null && left > 0) yield info;
        if (info !== null) left -= 1;
        after = key;
      }
      if (page.rows.length === 0) return;
    }
  }

  /** null where nobody holds or waits, and where the row is damaged: it must not hide the others. */
  #infoOf(key: string, row: TableRow, beats: readonly Beat[], nowUs: number): LockInfo | null {
    try {
      const kept = keptOf(key, row, 0, beats);
      this.#steps.ledger([kept], nowUs).sweepLine(kept.record);
      return lockInfo(kept.record, nowUs / 1_000);
    } catch (error) {
      if (error instanceof UnsafeStoreError) return null;
      throw error;
    }
  }

  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    return this.#do("revoke the lock", [key], () =>
      this.#step([key], io, ({ ledger, kept }) => {
        const answer = ledger.revoke((kept[0] as Kept).record, options);
        return { answer, writes: answer === "revoked" };
      }),
    );
  }

  check(io: Io): Promise<readonly Finding[]> {
    return this.#do("be checked", [], () => this.#table.check(io));
  }

  inTransaction(tx: unknown): TransactionDesk {
    const name = (key: string): RowName => this.#steps.name(key);
    const reserve = reserving(this, this.#system, (request) => this.#turns.end(request));
    const desk = this.#table.inTransaction?.(tx, name, reserve);
    if (desk === undefined)
      throw new UnsupportedError(`the ${this.#name} store cannot lock in a transaction`);
    return {
      attempt: (wish, io) => this.#do("lock in the transaction", wish.keys, () => desk.attempt(wish, io)),
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#pushes.clear();
    await this.#table.close();
  }

  #attempt(request: Request, turn: number, io: Io): Promise<AttemptAnswer<null>> {
    const { keys, id, seq, queue } = request;
    // Who asks for the first time has no place in line yet.
    const beat = queue && seq > 1 ? { id, seq } : null;
    const decide = ({ ledger, kept, nowMs }: Step): Decision<AttemptAnswer<null>> => {
      if (kept.some((one) => hasEnded(one, this.#proc, id, turn)))
        return { answer: { ended: true }, writes: false };
      const answer = ledger.attempt(request);
      if ("granted" in answer) return { answer: { granted: toGrant(answer.granted) }, writes: true };
      if (!("busy" in answer)) return { answer, writes: true };
      const holders = kept.flatMap(({ record }) => record.holders);
      const againMs = heartbeatFor(this.guarantees.claimMs, request.ttlMs);
      return { answer: { busy: toBusy(holders, (row) => holderInfo(row, nowMs), againMs) }, writes: true };
    };
    return this.#step(keys, io, decide, beat);
  }

  /**
   * A row that is damaged or that stays locked costs only its own lease: it is answered with "unknown", in
   * time for the answers of the others to count. Locked rows come last and a few at a time, because each of
   * them may keep a connection for long.
   */
  async #renewOneByOne(
    free: readonly RenewItem<null>[],
    locked: readonly RenewItem<null>[],
    io: Io,
  ): Promise<ReadonlyMap<RenewItem<null>, RenewAnswer>> {
    const answers = new Map<RenewItem<null>, RenewAnswer>();
    if (free.length + locked.length === 0) return answers;
    for (const item of [...free, ...locked]) answers.set(item, { state: "unknown" });
    let isOver = false;
    const over = io.sleep(io.timeoutMs * RENEW_SHARE).then(() => void (isOver = true));
    const renew = async (item: RenewItem<null>): Promise<void> => {
      const { keys } = item.request;
      const answer = await this.#renew(item, io).catch((error: unknown): RenewAnswer => {
        return { state: "unknown", cause: this.#table.say(error, "renew the lease", keys[0]) };
      });
      if (!isOver) answers.set(item, answer);
    };
    const queue = [...locked];
    const renewLocked = async (): Promise<void> => {
      for (let item = queue.shift(); item !== undefined && !isOver; item = queue.shift()) await renew(item);
    };
    const all = Promise.all(free.map(renew)).then(() =>
      Promise.all(Array.from({ length: LOCKED_AT_ONCE }, renewLocked)),
    );
    await Promise.race([all, over]);
    isOver = true;
    return answers;
  }

  #renew({ request, ttlMs, lastFences, label }: RenewItem<null>, io: Io): Promise<RenewAnswer> {
    const { keys, id, graceMs } = request;
    return this.#step<RenewAnswer>(keys, io, ({ ledger }) => {
      const answer = ledger.renew(keys, id, ttlMs, graceMs, lastFences.map(Number), label);
      if (answer === "renewed") return { answer: { state: "renewed", validMs: ttlMs }, writes: true };
      if (answer === "gone") return { answer: { state: "lost", reason: "gone" }, writes: false };
      return { answer: { state: "lost", reason: "revoked", detail: answer.revoked }, writes: false };
    });
  }

  /** `used` null: nobody can say which fences were used. */
  #end(request: Request, used: readonly number[] | null, io: Io): Promise<boolean> {
    const { keys, id } = request;
    const turn = this.#turns.end(request);
    const open = this.#turns.oldestOpen(request);
    return this.#step(keys, io, ({ ledger, kept, nowMs }) => {
      kept.forEach((one, at) => {
        unseat(one.record, id);
        markEnded(one, { proc: this.#proc, id, turn, open: open[at] as number }, nowMs);
      });
      if (used !== null) return { answer: ledger.release(keys, id, used), writes: true };
      ledger.abandon(keys, id);
      return { answer: false, writes: true };
    });
  }

  #look<T>(doing: string, keys: readonly string[], io: Io, ask: (step: Step) => T): Promise<T> {
    return this.#do(doing, keys, () =>
      this.#steps.run({ keys, beat: null, decide: (step) => ({ answer: ask(step), writes: false }) }, io),
    );
  }

  /** A step that may write; it also learns which keys are crowded. */
  #step<T>(
    keys: readonly string[],
    io: Io,
    decide: (step: Step) => Decision<T>,
    beat: { readonly id: string; readonly seq: number } | null = null,
  ): Promise<T> {
    const learn = (step: Step): Decision<T> => {
      const decision = decide(step);
      this.#shortcut.learn(step.kept);
      return decision;
    };
    return this.#steps.run({ keys, beat, decide: learn }, io);
  }

  async #do<T>(doing: string, keys: readonly string[], run: () => Promise<T>): Promise<T> {
    if (this.#closed) {
      throw new StoreUnavailableError(`the ${this.#name} store is closed`, {
        key: keys[0],
        retryable: false,
      });
    }
    try {
      return await run();
    } catch (error) {
      const said = this.#table.say(error, doing, keys[0]);
      throw isUnsent(error) ? markUnsent(said) : said;
    }
  }
}

/** Random, and then who it is, for people. */
function procOf(system: System): string {
  return `${system.randomId().slice(0, PROC_LENGTH)}@${system.processLabel.replaceAll(/[^\x20-\x7e]/g, "?")}`;
}
