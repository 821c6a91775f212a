// The lease table in PostgreSQL: the statements of sql/, what they are given and what they answer. One statement is one
// transaction, under whatever isolation the server has as its default. Numbers travel as text, because a bigint is more than
// some clients give as a number.

import { StoreUnavailableError } from "../../core/errors.ts";
import type { Finding, TransactionDesk } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { holderInfo } from "../shared/record.ts";
import type {
  Beat,
  Change,
  Drop,
  Extended,
  Extension,
  Grab,
  ListedRow,
  LoneHolder,
  Patience,
  Push,
  Reading,
  RowName,
  RowState,
  Table,
  TableRow,
} from "../shared/table.ts";
import { damagedRow } from "../shared/record-shape.ts";
import { keptOf } from "../shared/table-record.ts";
import { findings, noPush, type Settings } from "./check.ts";
import { isDataError, isUndone, postgresError } from "./errors.ts";
import { Listener } from "./listener.ts";
import { channelOf, isPlain, shown, whoIs } from "./names.ts";
import { type PgPort, type Row } from "./port.ts";
import type { Sql } from "./sql.ts";
import { PostgresTransaction, refuseShared } from "./transaction.ts";

const STRICT =
  "the transaction does not see the row of this key, which was made after it began: begin it as READ COMMITTED, or lock as its first statement";

export class PostgresTable implements Table {
  readonly #port: PgPort;
  readonly #namespace: string;
  readonly #sql: Sql;
  readonly #utf8: boolean;
  readonly #listener: Listener;
  #listening: (() => Promise<void>) | null = null;

  constructor(port: PgPort, settings: Settings, place: { namespace: string; sql: Sql; system: System }) {
    this.#port = port;
    this.#namespace = place.namespace;
    this.#sql = place.sql;
    this.#utf8 = settings.encoding === "UTF8";
    this.#listener = new Listener(port, place.system);
  }

  plain(text: string): boolean {
    return isPlain(text, this.#utf8);
  }

  async read(
    names: readonly RowName[],
    beat: { id: string; seq: number } | null,
    patience: Patience,
  ): Promise<Reading> {
    const digests = names.map(({ digest }) => digest);
    // A waiter that beats is the one who misses the pushes, if they do not come.
    if (beat !== null && this.#listener.down) void this.#listening?.();
    const rows =
      beat === null
        ? await this.#port.query(this.#sql.read, [digests], patience)
        : await this.#port.query(this.#sql.beat, [digests, beat.id, beat.seq], patience);
    const byName = new Map(rows.map((row) => [row["name"], row]));
    const found = digests.map((digest) => byName.get(digest.toString("hex")));
    return {
      nowUs: Number((rows[0] as Row)["now_us"]),
      floor: Number(byName.get("")?.["last"] ?? 0),
      rows: found.map((row) => (row === undefined ? null : rowOf(row))),
      beats: found.map((row) => beatsOf(row)),
    };
  }

  async swap(changes: readonly Change[], pushes: readonly Push[], patience: Patience): Promise<boolean> {
    const [first] = changes as readonly [Change];
    if (first.version === 0) return this.#insert(first, patience);
    const left = changes.flatMap(({ name, left: ids }) => ids.map((id) => [name.digest, id] as const));
    const rows = await this.#port.query(
      this.#sql.swap,
      [
        changes.map(({ name }) => name.digest),
        changes.map(({ version }) => version),
        JSON.stringify(changes.map(({ state }, at) => ({ place: at + 1, ...this.#columns(state) }))),
        left.map(([digest]) => digest),
        left.map(([, id]) => id),
        pushes.map(({ proc }) => channelOf(proc)),
        pushes.map(({ words }) => words),
      ],
      patience,
    );
    return rows[0]?.["done"] === String(changes.length);
  }

  async seed(names: readonly RowName[], patience: Patience): Promise<void> {
    const digests = names.map(({ digest }) => digest);
    const keys = names.map(({ key }) => Buffer.from(key));
    await this.#port.query(this.#sql.seed, [digests, this.#namespace, keys], patience);
  }

  async grab(grab: Grab, patience: Patience): Promise<number | null> {
    const { name, id, proc, turn, label, actor, room, lastsMs } = grab;
    const { host, process } = whoIs(proc);
    const start = [name.digest, this.#namespace, Buffer.from(name.key), id, proc, turn, label, host, process];
    const rows = await this.#port.query(this.#sql.grab, [...start, actor, room, toUs(lastsMs)], patience);
    return rows[0] === undefined ? null : Number(rows[0]["fence"]);
  }

  async drop({ name, id, proc, open, used }: Drop, patience: Patience): Promise<boolean> {
    const rows = await this.#port.query(this.#sql.drop, [name.digest, id, proc, open, used], patience);
    return rows.length === 1;
  }

  async extend(items: readonly Extension[], patience: Patience): Promise<readonly Extended[]> {
    const rows = await this.#port.query(
      this.#sql.extend,
      [
        items.map(({ name }) => name.digest),
        items.map(({ id }) => id),
        items.map(({ lastsMs }) => toUs(lastsMs)),
        items.map(({ used }) => used),
        items.map(({ label }) => label),
      ],
      patience,
    );
    const states = new Map(rows.map((row) => [Number(row["place"]), row["state"]]));
    return items.map((_item, at) => (states.get(at + 1) ?? "other") as Extended);
  }

  async list(
    prefix: string,
    after: string | null,
    patience: Patience,
  ): Promise<{ readonly nowUs: number; readonly rows: readonly ListedRow[] }> {
    const values = [this.#namespace, Buffer.from(prefix), after === null ? null : Buffer.from(after)];
    const rows = await this.#port.query(this.#sql.list, values, patience);
    const keyOf = (row: Row): string => Buffer.from(row["key"] as string, "hex").toString();
    return {
      nowUs: Number(rows[0]?.["now_us"] ?? 0),
      rows: rows.map((row) => ({ key: keyOf(row), row: rowOf(row), beats: beatsOf(row) })),
    };
  }

  async raiseFloor(patience: Patience): Promise<number> {
    const rows = await this.#port.query(this.#sql.floor, [], patience);
    return Number(rows[0]?.["last"] ?? 0);
  }

  async clean(floor: number, patience: Patience): Promise<boolean> {
    const [row] = await this.#port.query(this.#sql.clean, [floor], patience);
    return row?.["more"] === "true";
  }

  listen(proc: string, hear: (words: string) => void): Promise<void> {
    this.#listening = () => this.#listener.start(channelOf(proc), hear);
    return this.#listening();
  }

  async check(patience: Patience): Promise<readonly Finding[]> {
    return [...(await findings(this.#port, this.#sql, patience)), ...noPush(this.#listener.failure)];
  }

  inTransaction(tx: unknown, name: (key: string) => RowName): TransactionDesk {
    return new PostgresTransaction(tx, async (query, key, mode) => {
      refuseShared(mode);
      const { digest } = name(key);
      const read = (): Promise<readonly Row[]> =>
        query(this.#sql.tx_row, [digest]).catch((error: unknown) => {
          throw isDataError(error) ? damagedRow(key, error) : error;
        });
      let [row] = await read();
      if (row === undefined) {
        // Made outside of the transaction: a row that it had made itself would keep others waiting who only look for it.
        await this.#seedBesidePool(name(key));
        [row] = await read();
      }
      if (row === undefined) throw new StoreUnavailableError(STRICT, { key, retryable: false });
      const nowUs = Number(row["now_us"]);
      const { record } = keptOf(key, rowOf(row), Number(row["floor"] ?? 0), []);
      const holders = record.holders.filter(({ until }) => until > nowUs / 1_000);
      if (holders.length > 0) return { holders: holders.map((one) => holderInfo(one, nowUs / 1_000)) };
      const fence = Math.max(record.last + 1, nowUs);
      await query(this.#sql.tx_fence, [digest, fence]);
      return { fence: BigInt(fence) };
    });
  }

  say(error: unknown, doing: string, key: string | undefined): Error {
    return postgresError(error, doing, key, this.#sql.schema);
  }

  undone(error: unknown): boolean {
    return isUndone(error);
  }

  isDataError(error: unknown): boolean {
    return isDataError(error);
  }

  async close(): Promise<void> {
    this.#listener.close();
    await this.#port.close();
  }

  /** The caller's transaction has a connection of the pool, and there may be no other one to wait for. */
  async #seedBesidePool({ digest, key }: RowName): Promise<void> {
    const values = [[digest], this.#namespace, [Buffer.from(key)]];
    await this.#listener.query(this.#sql.seed, values);
  }

  async #insert({ name, state }: Change, patience: Patience): Promise<boolean> {
    const columns = JSON.stringify(this.#columns(state));
    const values = [name.digest, this.#namespace, Buffer.from(name.key), columns];
    return (await this.#port.query(this.#sql.insert, values, patience)).length === 1;
  }

  /** As the statements name them. What people read is mended where the database could not keep it; the record is exact. */
  #columns({ holder, record, last, marks, overMs }: RowState): object {
    const show = (text: string): string => shown(text, this.#utf8);
    const row = { last, marks: JSON.parse(marks) as object, record, over_us: toUs(overMs) };
    if (holder === null) return row;
    const { id, proc, fence, room, used, since, until } = holder;
    const people = { label: show(holder.label), actor: show(holder.actor), ...whoIs(proc) };
    const times = { since_us: toUs(since), ends_us: toUs(until) };
    return { ...row, holder: id, proc, fence, room, used, ...people, ...times };
  }
}

function rowOf(row: Row): TableRow {
  return {
    version: Number(row["version"]),
    last: Number(row["last"]),
    marks: row["marks"] as string,
    holder: holderOf(row),
    record: row["record"] as string | null,
    overMs: 0,
  };
}

function holderOf(row: Row): LoneHolder | null {
  const { holder: id, proc, label, actor } = row as Readonly<Record<string, string>>;
  if (id === null || id === undefined) return null;
  return {
    id,
    proc: proc ?? "",
    label: label ?? "",
    actor: actor ?? "",
    fence: Number(row["fence"]),
    room: Number(row["room"]),
    used: Number(row["used"]),
    since: Number(row["since_us"]) / 1_000,
    until: Number(row["ends_us"]) / 1_000,
  };
}

function beatsOf(row: Row | undefined): readonly Beat[] {
  const beats = JSON.parse(row?.["beats"] ?? "[]") as [string, number, number][];
  return beats.map(([id, seq, seenUs]) => ({ id, seq, seenMs: seenUs / 1_000 }));
}

function toUs(ms: number): number {
  return Math.ceil(ms * 1_000);
}
