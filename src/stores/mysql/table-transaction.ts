// Locks of the lease table inside a transaction of the caller's. A row that was locked there stays so until
// the transaction ends, and a holder whose row is locked could neither renew nor release. Therefore:
//
// 1. The keys are reserved first: an ordinary, very short lease, taken outside of the transaction, all of
//    them or none.
// 2. The transaction locks the rows, which nobody else holds now, and writes that they are free. Until it
//    ends, whoever wants a key waits for its row in the server. Then the rows are free if it was committed.
//    If it was rolled back they show the reservation, which is over by then or soon after.
//
// The fence is the one of the reservation. It was committed with it, so that not even a rollback brings it
// back.

import { StoreUnavailableError, UnsupportedError } from "../../core/errors.ts";
import type { AttemptAnswer, HolderInfo, Io, Request, TransactionDesk } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import type { Row } from "./client/port.ts";
import { textOf } from "./client/port.ts";
import { sql } from "./sql.ts";
import type { Steps } from "./steps.ts";
import { MysqlTransaction } from "./transaction.ts";

type Wish = Parameters<TransactionDesk["attempt"]>[0];
type Answer = Awaited<ReturnType<TransactionDesk["attempt"]>>;

/**
 * Long enough for a few statements; a transaction that is rolled back sooner keeps its keys for the rest of
 * it.
 */
const RESERVED_MS = 1_000;
/** Later than this no row is asked for any more: by then it might be somebody else's. */
const USED_WITHIN_MS = 500;
/** Somebody joins the queue, or looks: the row is free again in a moment. */
const ASK_EVERY_MS = 2;

/** What a connection has locked: the id and the fence of the reservation. */
interface Locked {
  readonly id: string;
  readonly fence: bigint;
}

interface Reservation {
  readonly id: string;
  /** One per key. */
  readonly fences: readonly bigint[];
  isOver(): boolean;
}

export interface TableTransactionDeps {
  readonly steps: Steps;
  readonly system: System;
  /**
   * By connection and key. Whether the transaction still is the one that locked it is asked of the server.
   */
  readonly locked: WeakMap<object, Map<string, Locked>>;
  /** One attempt that waits for no row and joins no queue. */
  attempt(request: Request, io: Io): Promise<AttemptAnswer<null>>;
}

export class TableTransaction implements TransactionDesk {
  readonly #tx: MysqlTransaction;
  readonly #deps: TableTransactionDeps;
  readonly #locked: Map<string, Locked>;

  constructor(tx: unknown, deps: TableTransactionDeps) {
    this.#tx = new MysqlTransaction(tx);
    this.#deps = deps;
    const known = deps.locked.get(this.#tx.connection);
    this.#locked = known ?? new Map<string, Locked>();
    deps.locked.set(this.#tx.connection, this.#locked);
  }

  async attempt({ keys, mode, label }: Wish, io: Io): Promise<Answer> {
    if (mode === "shared")
      throw new UnsupportedError(
        "inside a transaction table mode takes exclusive locks only; row mode takes both",
      );
    const { pool } = this.#deps.steps.context;
    const { dialect } = (await pool.primary(io)).facts;
    await this.#tx.begin(dialect, (statement) => pool.run(statement, [], io));
    return this.#tx.attempt(() => this.#take(keys, label, io));
  }

  async #take(keys: readonly string[], label: string, io: Io): Promise<Answer> {
    const fences = new Map<string, bigint>();
    for (const key of keys) {
      const fence = await this.#lockedBefore(key, io);
      if (fence !== null) fences.set(key, fence);
    }
    const wanted = keys.filter((key) => !fences.has(key));
    if (wanted.length > 0) {
      const reserved = await this.#reserve(wanted, label, io);
      if ("busy" in reserved) return reserved;
      for (const [at, key] of wanted.entries()) {
        const fence = reserved.fences[at] as bigint;
        if (!(await this.#lock(key, reserved, io))) return { busy: [] };
        this.#locked.set(key, { id: reserved.id, fence });
        fences.set(key, fence);
      }
    }
    return { granted: keys.map((key) => fences.get(key) as bigint) };
  }

  /** An ordinary lease for a moment. It is never renewed; if nothing comes of it, it ends by itself. */
  async #reserve(
    keys: readonly string[],
    label: string,
    io: Io,
  ): Promise<Reservation | { readonly busy: readonly HolderInfo[] }> {
    const { system } = this.#deps;
    const [id, sentMs] = [system.randomId(), system.monoMs()];
    const lock = { mode: "exclusive", permits: 1, limit: 1, queue: false } as const;
    const times = { seq: 1, ttlMs: RESERVED_MS, graceMs: 0, keepMs: 0, reservedFences: 0 };
    const request: Request = { keys, id, label, actor: id, ...lock, ...times };
    const answer = await this.#deps.attempt(request, io);
    if ("busy" in answer) return { busy: answer.busy.holders ?? [] };
    if (!("granted" in answer)) return { busy: [] };
    const isOver = (): boolean => system.monoMs() - sentMs >= USED_WITHIN_MS;
    return { id, fences: answer.granted.fences, isOver };
  }

  /**
   * The fence of a key that this very transaction has locked already. Others still see the reservation, and
   * the transaction sees that it is free.
   */
  async #lockedBefore(key: string, io: Io): Promise<bigint | null> {
    const locked = this.#locked.get(key);
    if (locked === undefined) return null;
    const { steps } = this.#deps;
    const name = steps.hash(key);
    const { rows } = await steps.run(sql["transaction_read_holder"], [name], io);
    if (textOf(rows[0]?.["holder"]) === locked.id) {
      const [row] = (await this.#tx.run(sql["transaction_lock_row"], [name])).rows;
      if (row?.["holder"] === null) return locked.fence;
    }
    this.#locked.delete(key);
    return null;
  }

  /** False when the row could not be had for as long as the reservation lasts. */
  async #lock(key: string, reserved: Reservation, io: Io): Promise<boolean> {
    const name = this.#deps.steps.hash(key);
    const row = await this.#lockRow(name, reserved, io);
    if (row === null) return false;
    const { met } = await this.#tx.run(sql["transaction_free_row"], [name, reserved.id]);
    if (met !== 1) throw takenError(key);
    return true;
  }

  async #lockRow(name: Uint8Array, reserved: Reservation, io: Io): Promise<Row | null> {
    while (!io.signal.aborted && !reserved.isOver()) {
      const [row] = (await this.#tx.run(sql["transaction_lock_row"], [name])).rows;
      if (row !== undefined) return row;
      await io.sleep(ASK_EVERY_MS);
    }
    return null;
  }
}

function takenError(key: string): StoreUnavailableError {
  return new StoreUnavailableError(
    "another has taken the key while the transaction was about to lock it, which may keep its row locked " +
      "now: " +
      "roll it back and begin again",
    { key },
  );
}
