// The lease table in MySQL: the statements of sql/, what they are given and what they answer. One statement is one transaction;
// only a change of several rows is several statements, on a connection that is thrown away if it does not end well.
// Every statement that changes a row also asks whether its server is still the primary.

import type { Finding, TransactionDesk } from "../../core/store.ts";
import type {
  Change,
  Drop,
  Extended,
  Extension,
  Grab,
  ListedRow,
  Patience,
  Push,
  Reading,
  Reserve,
  RowName,
  Table,
} from "../shared/table.ts";
import type { System } from "../../core/system.ts";
import { readFacts, tableFindings } from "./check.ts";
import { isDataError, isPassing, mysqlError, PrimaryMovedError } from "./errors.ts";
import { Letters } from "./letters.ts";
import type { Pool } from "./pool.ts";
import { type Answer, type Row, type SqlConnection, textOf, type Value } from "./port.ts";
import { sql, type StatementName } from "./sql.ts";
import { beatsOf, columnsOf, isPlain, rowOf, standsIn, toUs, whoIs } from "./table-row.ts";
import { TableTransaction, type TableTransactionDeps } from "./table-transaction.ts";

const SEEN_EVERY_MS = 1_000;
/** As the statements say. */
const CLEANED_AT_ONCE = 500;

export class MysqlTable implements Table {
  readonly #pool: Pool;
  readonly #namespace: Uint8Array;
  readonly #system: System;
  readonly #letters: Letters;
  readonly #several: boolean;
  readonly #locked: TableTransactionDeps["locked"] = new WeakMap();
  #seenMs = 0;

  constructor(pool: Pool, place: { namespace: string; system: System; several: boolean }) {
    this.#pool = pool;
    this.#namespace = Buffer.from(place.namespace);
    this.#system = place.system;
    this.#several = place.several;
    this.#letters = new Letters(pool);
  }

  plain(text: string): boolean {
    return isPlain(text);
  }

  async read(
    names: readonly RowName[],
    beat: { id: string; seq: number } | null,
    patience: Patience,
  ): Promise<Reading> {
    const digests = names.map(({ digest }) => digest);
    const marks = digests.map(() => "?").join(", ");
    const answer = await this.#pool.run(sql["read"].replace("{names}", marks), digests, patience);
    const [first] = answer.rows as readonly [Row];
    const nowUs = Number(first["now_us"]);
    await this.#checkPrimary(textOf(first["primary_server"]), patience);
    const byName = new Map(answer.rows.map((row) => [hex(row["name"]), row]));
    const found = digests.map((digest) => byName.get(hex(digest)));
    // Only who stands in line is to be seen: one that was chosen meanwhile would leave its heartbeat behind.
    if (beat !== null) {
      const { id, seq } = beat;
      const standing = found.filter((row) => row !== undefined && standsIn(row, id)) as Row[];
      for (const row of standing) await this.#run("beat", [row["name"] as Uint8Array, id, seq], patience);
    }
    return {
      nowUs,
      floor: Number(first["floor"] ?? 0),
      mayGrant: Number(first["ready_us"]) <= nowUs,
      rows: found.map((row) => (row === undefined ? null : rowOf(row))),
      beats: found.map((row) => beatsOf(row)),
    };
  }

  async swap(changes: readonly Change[], pushes: readonly Push[], patience: Patience): Promise<boolean> {
    const { server } = (await this.#pool.primary(patience)).facts;
    const [first] = changes as readonly [Change];
    const swapped =
      changes.length > 1
        ? await this.#pool.use((connection) => this.#swapAll(connection, changes, server), patience)
        : (await this.#pool.run(...this.#swap(first, server), patience)).met === 1;
    if (!swapped) return false;
    // What follows is not waited for: a heartbeat too many is cleaned away, and who misses a letter looks by itself.
    void this.#after(changes, pushes, patience).catch(() => {});
    return true;
  }

  async seed(names: readonly RowName[], patience: Patience): Promise<void> {
    for (const { digest, key } of names) {
      await this.#run("seed", [digest, this.#namespace, Buffer.from(key)], patience);
    }
  }

  async grab(grab: Grab, patience: Patience): Promise<number | null> {
    const { name, id, proc, turn, label, actor, room, lastsMs } = grab;
    const { host, process } = whoIs(proc);
    const { server } = (await this.#pool.primary(patience)).facts;
    const who = [id, proc, label, host, process, actor];
    const rule = [name.digest, `${pathOf(proc)}[0]`, turn, server];
    const answer = await this.#run("grab", [...who, room, toUs(lastsMs), ...rule], patience);
    if (answer.met === 0) return null;
    if (answer.insertId <= 0) throw new Error("the server gave no fence");
    return answer.insertId;
  }

  async drop({ name, id, proc, open, used }: Drop, patience: Patience): Promise<boolean> {
    const { server } = (await this.#pool.primary(patience)).facts;
    const path = pathOf(proc);
    const values = [used, path, open, `${path}[0]`, name.digest, id, server];
    return (await this.#run("drop", values, patience)).met === 1;
  }

  async extend(items: readonly Extension[], patience: Patience): Promise<readonly Extended[]> {
    const { server } = (await this.#pool.primary(patience)).facts;
    const locked = await this.#lockedOf(items, patience);
    return Promise.all(
      items.map(async ({ name, id, lastsMs, used, label }): Promise<Extended> => {
        if (locked.has(hex(name.digest))) return "locked";
        const values = [used, label, toUs(lastsMs), name.digest, id, server];
        const answer = await this.#run("extend", values, patience).catch((error: unknown) => {
          if (this.undone(error) || this.isDataError(error)) return null;
          throw error;
        });
        return answer?.met === 1 ? "renewed" : "other";
      }),
    );
  }

  /** Rows that somebody else has locked, asked without waiting. An UPDATE cannot skip them. */
  async #lockedOf(items: readonly Extension[], patience: Patience): Promise<ReadonlySet<string>> {
    if (items.length === 1) return new Set();
    // A power of two, so that the server has to prepare few statements, whatever the number of leases.
    const digests = items.map(({ name }) => name.digest);
    while (!Number.isInteger(Math.log2(digests.length))) digests.push(digests[0] as Buffer);
    const marks = digests.map(() => "?").join(", ");
    const text = `SELECT name FROM holdfast_lock WHERE name IN (${marks})`;
    const [all, free] = await Promise.all(
      [text, `${text} FOR UPDATE SKIP LOCKED`].map(async (statement) => {
        const { rows } = await this.#pool.run(statement, digests, patience);
        return new Set(rows.map((row) => hex(row["name"])));
      }) as [Promise<Set<string>>, Promise<Set<string>>],
    );
    return new Set([...all].filter((name) => !free.has(name)));
  }

  async list(
    prefix: string,
    after: string | null,
    patience: Patience,
  ): Promise<{ readonly nowUs: number; readonly rows: readonly ListedRow[] }> {
    const start = Buffer.from(prefix);
    const values = [this.#namespace, Buffer.from(after ?? ""), start.length, start];
    const { rows } = await this.#run("list", values, patience);
    return {
      nowUs: Number(rows[0]?.["now_us"] ?? 0),
      rows: rows.map((row) => ({ key: textOf(row["lock_key"]), row: rowOf(row), beats: beatsOf(row) })),
    };
  }

  async raiseFloor(patience: Patience): Promise<number> {
    await this.#run("raise-floor", [], patience);
    const { rows } = await this.#pool.run("SELECT floor FROM holdfast_floor WHERE id = 1", [], patience);
    return Number(rows[0]?.["floor"] ?? 0);
  }

  async clean(floor: number, patience: Patience): Promise<boolean> {
    const rows = await this.#run("clean", [floor], patience);
    const beats = await this.#run("clean-beats", [], patience);
    const pushes = await this.#run("clean-pushes", [], patience);
    return [rows, beats, pushes].some(({ met }) => met === CLEANED_AT_ONCE);
  }

  listen(proc: string, hear: (words: string) => void): Promise<void> {
    return this.#letters.listen(proc, hear);
  }

  async check(patience: Patience): Promise<readonly Finding[]> {
    const facts = await this.#pool.use(readFacts, patience);
    return tableFindings(facts, { several: this.#several, heard: this.#letters.heard });
  }

  inTransaction(tx: unknown, name: (key: string) => RowName, reserve: Reserve): TransactionDesk {
    return new TableTransaction(tx, { pool: this.#pool, locked: this.#locked, name, reserve });
  }

  say(error: unknown, doing: string, key: string | undefined): Error {
    return mysqlError(error, doing, key);
  }

  undone(error: unknown): boolean {
    return isPassing(error) || error instanceof PrimaryMovedError;
  }

  isDataError(error: unknown): boolean {
    return isDataError(error);
  }

  close(): Promise<void> {
    this.#letters.close(() => this.#pool.close());
    return Promise.resolve();
  }

  async #run(name: StatementName, values: readonly Value[], patience: Patience): Promise<Answer> {
    const answer = await this.#pool.run(sql[name], values, patience);
    if (this.#several) this.#tellSeen();
    return answer;
  }

  #swap({ name, version, state }: Change, server: string): [string, Value[]] {
    const columns = columnsOf(state);
    if (version > 0) return [sql["swap"], [...columns, name.digest, version, server]];
    return [sql["insert"], [...columns, name.digest, this.#namespace, Buffer.from(name.key), server]];
  }

  /** All or none. In the order of the names, so that two who change the same rows do not wait for each other. */
  async #swapAll(connection: SqlConnection, changes: readonly Change[], server: string): Promise<boolean> {
    const ordered = [...changes].sort((a, b) => Buffer.compare(a.name.digest, b.name.digest));
    try {
      await connection.run("START TRANSACTION");
      for (const change of ordered) {
        if ((await connection.run(...this.#swap(change, server))).met === 1) continue;
        await connection.run("ROLLBACK");
        return false;
      }
      await connection.run("COMMIT");
      return true;
    } catch (error) {
      // A lock-wait timeout leaves the transaction open; with the connection it is over for certain.
      connection.destroy();
      throw error;
    }
  }

  async #after(changes: readonly Change[], pushes: readonly Push[], patience: Patience): Promise<void> {
    await this.#letters.send(pushes, patience);
    for (const { name, left } of changes) {
      for (const id of left) await this.#run("unbeat", [name.digest, id], patience);
    }
  }

  /** Another server has taken over: the next read goes there. */
  async #checkPrimary(present: string, patience: Patience): Promise<void> {
    const { facts } = await this.#pool.primary(patience);
    if (present === facts.server) return;
    this.#pool.forget();
    throw new PrimaryMovedError(`the primary is now ${present}`);
  }

  /** Tells the other servers' clients that this primary works; not waited for. */
  #tellSeen(): void {
    const nowMs = this.#system.monoMs();
    if (nowMs - this.#seenMs < SEEN_EVERY_MS) return;
    this.#seenMs = nowMs;
    const telling = async (): Promise<void> => {
      const alone = { signal: new AbortController().signal };
      const { server } = (await this.#pool.primary(alone)).facts;
      await this.#pool.run(sql["seen"], [server], alone);
    };
    telling().catch(() => {});
  }
}

/** Where an opened store's mark is in the JSON of a row. */
function pathOf(proc: string): string {
  return `$.${JSON.stringify(proc)}`;
}

function hex(value: unknown): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString("hex") : "";
}
