// Locks of the lease table inside a transaction of the caller's. A row that was locked there stays so until the transaction ends, and
// a holder whose row is locked could neither renew nor let go. Therefore:
// 1. The keys are reserved first: an ordinary, very short lease, taken outside of the transaction, all of them or none.
// 2. The transaction locks the rows, which nobody else holds now, and writes that they are free. Until it ends, whoever wants
//    a key waits for its row in the server; then the rows are free if it was committed, and if it was rolled back they show the
//    reservation, which is over by then or soon after.
// The fence is the one of the reservation. It was committed with it, so that not even a rollback brings it back.

import { StoreUnavailableError, UnsupportedError } from "../../core/errors.ts";
import type { Io, TransactionDesk } from "../../core/store.ts";
import type { Reservation, Reserve, RowName } from "../shared/table.ts";
import type { HolderRow, KeyRecord } from "../shared/record.ts";
import { keptOf, stateOf } from "../shared/table-record.ts";
import type { Pool } from "./pool.ts";
import type { Row } from "./port.ts";
import { sql } from "./sql.ts";
import { columnsOf, isPlain, rowOf } from "./table-row.ts";
import { MysqlTransaction, sharing } from "./transaction.ts";

type Wish = Parameters<TransactionDesk["attempt"]>[0];
type Answer = Awaited<ReturnType<TransactionDesk["attempt"]>>;

/** Somebody takes a place in line, or looks: the row is free again in a moment. */
const LOOK_EVERY_MS = 2;

/** What a connection has locked, and the version that it wrote. */
interface Locked {
  readonly version: number;
  readonly fence: bigint;
}

export interface TableTransactionDeps {
  readonly pool: Pool;
  readonly reserve: Reserve;
  name(key: string): RowName;
  /** By connection and key. Whether the transaction still is the one that locked it is asked of the server. */
  readonly locked: WeakMap<object, Map<string, Locked>>;
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
    const { dialect } = (await this.#deps.pool.primary(io)).facts;
    await this.#tx.begin(dialect, (statement) => this.#deps.pool.run(statement, [], io));
    return this.#tx.attempt(() => this.#take(keys, label, io));
  }

  async #take(keys: readonly string[], label: string, io: Io): Promise<Answer> {
    const fences = new Map<string, bigint>();
    for (const key of keys) {
      const fence = await this.#again(key, io);
      if (fence !== null) fences.set(key, fence);
    }
    const wanted = keys.filter((key) => !fences.has(key));
    for (const key of wanted) if (!(await this.#unlocked(key, io))) return { busy: [] };
    if (wanted.length > 0) {
      const reserved = await this.#deps.reserve(wanted, label, io);
      if ("busy" in reserved) return reserved;
      for (const [at, key] of wanted.entries()) {
        if (!(await this.#lock(key, reserved, io))) return { busy: [] };
        fences.set(key, reserved.fences[at] as bigint);
      }
    }
    return { granted: keys.map((key) => fences.get(key) as bigint) };
  }

  /** The fence of a key that this very transaction has locked already. Others see the version before the one that it wrote. */
  async #again(key: string, io: Io): Promise<bigint | null> {
    const locked = this.#locked.get(key);
    if (locked === undefined) return null;
    const { digest } = this.#deps.name(key);
    const { rows } = await this.#deps.pool.run(sql["tx-version"], [digest], io);
    if (Number(rows[0]?.["version"]) === locked.version - 1) {
      const [row] = (await this.#tx.run(sql["tx-row"], [digest])).rows;
      if (row !== undefined && Number(row["version"]) === locked.version) return locked.fence;
      if (row !== undefined) throw taken(key);
    }
    this.#locked.delete(key);
    return null;
  }

  /** Another transaction may have the row: asked without waiting for it. Readers of the lock do not disturb each other. */
  async #unlocked(key: string, io: Io): Promise<boolean> {
    const { pool } = this.#deps;
    const { dialect } = (await pool.primary(io)).facts;
    const { digest } = this.#deps.name(key);
    const statement = `${sql["tx-version"]} ${sharing(dialect)} SKIP LOCKED`;
    if ((await pool.run(statement, [digest], io)).met === 1) return true;
    return (await pool.run(sql["tx-version"], [digest], io)).met === 0;
  }

  /** False when the row could not be had for as long as the reservation lasts. */
  async #lock(key: string, reserved: Reservation, io: Io): Promise<boolean> {
    const name = this.#deps.name(key);
    const row = await this.#row(name, reserved, io);
    if (row === null) return false;
    const state = rowOf(row);
    const kept = keptOf(key, state, 0, []);
    const own = kept.record.holders.find(({ id }) => id === reserved.id);
    if (own === undefined) throw taken(key);
    letGo(kept.record, own);
    const values = [...columnsOf(stateOf(kept, own.until, isPlain)), name.digest, state.version];
    if ((await this.#tx.run(sql["tx-write"], values)).met !== 1) throw taken(key);
    this.#locked.set(key, { version: state.version + 1, fence: BigInt(own.fence) });
    return true;
  }

  async #row({ digest }: RowName, reserved: Reservation, io: Io): Promise<Row | null> {
    while (!io.signal.aborted && !reserved.over()) {
      const [row] = (await this.#tx.run(sql["tx-row"], [digest])).rows;
      if (row !== undefined) return row;
      await io.sleep(LOOK_EVERY_MS);
    }
    return null;
  }
}

/** There are no hand-offs in a transaction: the numbers beyond the fence return to the key. */
function letGo(record: KeyRecord, own: HolderRow): void {
  record.holders.splice(record.holders.indexOf(own), 1);
  if (record.last === own.fence + own.room) record.last = own.fence;
}

function taken(key: string): StoreUnavailableError {
  return new StoreUnavailableError(
    "another has taken the key while the transaction was about to lock it, which may keep its row locked now: roll it back and begin again",
    { key },
  );
}
