// Locks without scripts, for servers that forbid them: exclusive locks on one key, by polling, without a
// queue. The keys and the record are those of the scripts (scripts/record.lua), so that processes with and
// without scripts exclude each other. Waiters of processes with scripts go first: their next heartbeat finds
// the key.
//
// 1. WATCH, TIME, HGETALL and GET of the highest fence leave together, on a dedicated connection. A grant
//    counts from the send of the attempt, which is no later than that of TIME.
// 2. The client decides, under the server's time.
// 3. MULTI, the writes and EXEC leave together, and WAIT behind them where replicas must acknowledge. If
//    another process wrote first, EXEC writes nothing, and step 1 comes again.

import { LockError, StoreUnavailableError, UnsupportedError } from "../../../core/errors.ts";
import type {
  AttemptAnswer,
  Io,
  LockInfo,
  Note,
  RenewAnswer,
  RenewItem,
  Request,
} from "../../../core/store.ts";
import type { RevokeAnswer, RevokeOptions } from "../../../core/store.ts";
import { listOf, type Reply, textOf } from "../client/port.ts";
import { redisError } from "../errors.ts";
import type { Connection } from "../topology/connection.ts";
import { type GetConnection, PerNode } from "../topology/dedicated-connection.ts";
import { type Commands, type CommandsEnv, DOING, isPlain, lifeOf } from "./commands.ts";
import type { OpenRequest } from "./open-requests.ts";
import { tooFew, waitMs } from "./replica-ack.ts";
import { unknownRenewal } from "./script-commands.ts";
import { labelText, readInspect } from "./script-replies.ts";

const VERSION = "3";
const KEEP_FENCE_MS = "3600000";
const FOREIGN = "HOLDFAST-FOREIGN";
/** How often a waiter asks. */
const POLL_MS = 250;
/** How long the record of a version to come counts as held. */
const UNKNOWN_US = 250_000;
/** A row of a holder and the promise of a waiter, as scripts/record.lua writes them. */
const ROW = /^[hvkr]. \d{16} \d{12}( \d{16}){4} \d{7} [xsp] .{32} .{16} \d{4} /s;
const PROMISE = /^\d{10} (\d{16}) . \d{16} \d{16}/;
/** Columns of a row: where each begins, and its length. */
const COLUMNS = {
  fence: [3, 16],
  reserved: [20, 12],
  used: [33, 16],
  ends: [67, 16],
  keep: [84, 16],
} as const;

/** The record of a key as it was read. Rows stay text. */
interface KeyRecord {
  readonly timeUs: number;
  readonly fields: ReadonlyMap<string, string>;
  /** The exclusive holder, perhaps expired; "" where there is none. */
  readonly holder: string;
  /** All holders, and waiters with a reserved place. */
  readonly rows: readonly string[];
  /** Per live waiter its id, its promise and its details. */
  readonly waiters: readonly string[];
  /** The highest fence of the namespace, or of the key in a Cluster. */
  readonly floor: number;
  /** Another version holds the key until then; 0 if its record is free, null if the record is ours. */
  readonly otherEndUs: number | null;
}

type Command = readonly string[];

/** What to write, and the answer once it is written. */
interface Decision<T> {
  readonly answer: T;
  readonly writes?: readonly Command[];
  /** The writes need `replicas` acknowledgements: the answer if there are too few. */
  readonly ifTooFew?: (why: string) => T;
}

type Decide<T> = (record: KeyRecord) => Decision<T>;

export class TransactionCommands implements Commands {
  readonly #env: CommandsEnv;
  readonly #clock: string | null;
  readonly #attempts: PerNode<Transactions>;
  readonly #others: PerNode<Transactions>;

  constructor(env: CommandsEnv) {
    this.#env = env;
    const { port, replicas, system } = env;
    this.#clock = port.slotOf === undefined ? env.names.clock : null;
    const make = (connection: GetConnection): Transactions =>
      new Transactions(connection, this.#clock, replicas);
    this.#others = new PerNode(port, system, make);
    // A renewal must not stand behind an acquire that waits for replicas.
    this.#attempts = replicas === 0 ? this.#others : new PerNode(port, system, make);
  }

  async attempt(request: Request, open: OpenRequest, io: Io): Promise<AttemptAnswer<null>> {
    rejectOtherKinds(request);
    const decide: Decide<AttemptAnswer<null>> = (record) =>
      // The end of the request was written first, over another connection: it must not be granted again.
      open.isEnded ? { answer: { ended: true } } : this.#decideAttempt(request, record);
    return this.#run("acquire", request.keys[0] as string, io, decide, this.#attempts);
  }

  #decideAttempt(request: Request, record: KeyRecord): Decision<AttemptAnswer<null>> {
    const { id, ttlMs, graceMs, reservedFences, label, actor } = request;
    const key = request.keys[0] as string;
    const name = this.#env.names.record(key);
    const { timeUs, fields, holder, rows } = record;
    const endUs = timeUs + Math.ceil((ttlMs + graceMs) * 1_000);
    const grant = (fence: number, ...writes: Command[]): Decision<AttemptAnswer<null>> => ({
      answer: { granted: { fences: [BigInt(fence)], reservedFences, validMs: ttlMs, cookie: null } },
      writes: [...writes, ["PEXPIRE", name, lifeOf(ttlMs + graceMs)]],
      ifTooFew: (why) => ({ unconfirmed: { why } }),
    });
    if (isHeldBy(holder, id, timeUs)) {
      if (holder.startsWith("v")) return { answer: { ended: true } };
      const row = withColumn(holder, "ends", Math.max(column(holder, "ends"), endUs));
      return grant(column(row, "fence"), ["HSET", name, "holder", row]);
    }
    const { holders, waiters } = inspect(key, record) ?? { holders: [], waiters: null };
    if (holders.length > 0 || waiters !== null)
      return {
        answer: { busy: { holders: holders.slice(0, 3), againMs: POLL_MS, holderCount: holders.length } },
      };
    // Holders that expired may have used all of their fences.
    const fence = Math.max(timeUs, record.floor + 1, ...rows.map((row) => lastFence(row) + 1));
    const times = [fence, timeUs, endUs, 0].map((number) => pad(number, 16)).join(" ");
    const row = `h- ${pad(fence, 16)} ${pad(reservedFences, 12)} ${times} 0000001 x ${id} ${this.#env.proc} `;
    const text = `${row}${labelText(label)} ${actor}`;
    return grant(
      fence,
      ["DEL", name, this.#env.names.ends(key)],
      ["HSET", name, "v", VERSION, "holder", text, ...endedIn(fields)],
      this.#raise(name, fence),
    );
  }

  renew(items: readonly RenewItem<null>[], io: Io): Promise<RenewAnswer[]> {
    const unknown = (cause: unknown): RenewAnswer => ({ state: "unknown", cause });
    return Promise.all(items.map((item) => this.#renewOne(item, io).catch(unknown)));
  }

  #renewOne({ request, ttlMs, lastFences, label }: RenewItem<null>, io: Io): Promise<RenewAnswer> {
    const { keys, id, graceMs, actor } = request;
    const name = this.#env.names.record(keys[0] as string);
    return this.#run<RenewAnswer>("renew", keys[0] as string, io, ({ holder, timeUs, fields }) => {
      if (!isHeldBy(holder, id, timeUs)) return { answer: { state: "lost", reason: "gone" } };
      if (holder.startsWith("v"))
        return { answer: { state: "lost", reason: "revoked", detail: fields.get(`reason:${id}`) ?? "" } };
      const endUs = timeUs + Math.ceil((ttlMs + graceMs) * 1_000);
      const used = Math.min(Number(lastFences[0] ?? 0), lastFence(holder));
      const kept = withColumn(holder, "ends", Math.max(column(holder, "ends"), endUs));
      const row = withColumn(kept, "used", Math.max(column(holder, "used"), used));
      return {
        answer: { state: "renewed", validMs: ttlMs },
        writes: [
          ["HSET", name, "holder", `${row.slice(0, 161)}${labelText(label)} ${actor}`],
          ["PEXPIRE", name, lifeOf(ttlMs + graceMs)],
        ],
        ifTooFew: unknownRenewal,
      };
    });
  }

  /** Always writes: that breaks the transaction of an attempt of this id that is still under way (P8). */
  end({ keys, id }: Request, used: readonly string[], _lateUntilMs: number, io: Io): Promise<boolean> {
    const key = keys[0] as string;
    const name = this.#env.names.record(key);
    return this.#run("release", key, io, (record) => {
      if (record.otherEndUs !== null) return { answer: false };
      if (isHeldBy(record.holder, id, record.timeUs))
        return { answer: true, writes: this.#removeHolder(key, record, used[0] ?? "") };
      const touch = ["HSET", name, "v", VERSION];
      return { answer: false, writes: record.fields.size > 0 ? [touch] : [touch, ["DEL", name]] };
    });
  }

  #removeHolder(key: string, { holder, fields, floor, waiters }: KeyRecord, used: string): Command[] {
    const name = this.#env.names.record(key);
    const id = idOf(holder);
    const first = Math.max(column(holder, "fence"), column(holder, "used"), Number(used));
    const last = Math.max(floor, used === "" ? lastFence(holder) : Math.min(lastFence(holder), first));
    if (waiters.length > 0)
      return [["HDEL", name, "holder", `note:${id}`, `reason:${id}`], this.#raise(name, last)];
    const kept = [...endedIn(fields), ...(this.#clock === null ? ["fence", String(last)] : [])];
    const writes = [["DEL", name, this.#env.names.ends(key)]];
    if (this.#clock !== null) writes.push(this.#raise(name, last));
    if (kept.length > 0) writes.push(["HSET", name, "v", VERSION, ...kept], ["PEXPIRE", name, KEEP_FENCE_MS]);
    return writes;
  }

  owns({ keys, id }: Request, io: Io): Promise<boolean> {
    return this.#run("owns", keys[0] as string, io, ({ holder, timeUs }) => ({
      answer: isHeldBy(holder, id, timeUs) && holder.startsWith("h"),
    }));
  }

  note({ keys, id }: Request, note: Note, io: Io): Promise<void> {
    const name = this.#env.names.record(keys[0] as string);
    return this.#run<void>("note", keys[0] as string, io, ({ holder, timeUs }) => {
      if (!isHeldBy(holder, id, timeUs)) return { answer: undefined };
      const row = `${holder[0]}${note === null ? "-" : "n"}${holder.slice(2)}`;
      const write = ["HSET", name, "holder", row, `note:${id}`, note?.waitingFor ?? ""];
      return { answer: undefined, writes: [write] };
    });
  }

  inspect(keys: readonly string[], io: Io): Promise<(LockInfo | LockError | null)[]> {
    const inspectOne = (key: string): Promise<LockInfo | LockError | null> =>
      this.#run<LockInfo | LockError | null>("inspect", key, io, (record) => ({
        answer: inspect(key, record),
      })).catch((error: unknown) => {
        if (LockError.is(error) && error.code === "ERR_STORE_UNSAFE") return error;
        throw error;
      });
    return Promise.all(keys.map(inspectOne));
  }

  revoke(key: string, { fence, reason, force }: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    const name = this.#env.names.record(key);
    return this.#run<RevokeAnswer>("revoke", key, io, (record) => {
      const { holder } = record;
      if ((inspect(key, record)?.holders ?? []).length === 0) return { answer: "free" };
      if (holder === "") throw new UnsupportedError(`without scripts ${ONLY_EXCLUSIVE}`, { key });
      const wanted = fence === undefined ? column(holder, "fence") : Number(fence);
      if (wanted < column(holder, "fence") || wanted > lastFence(holder)) return { answer: "other-fence" };
      const [id, proc] = [idOf(holder), holder.slice(144, 160)];
      const publish = ["PUBLISH", this.#env.names.channels + proc, `revoked ${id} ${reason}`];
      if (force || holder.startsWith("k"))
        return { answer: "revoked", writes: [...this.#removeHolder(key, record, ""), publish] };
      const row = `v${withColumn(holder, "keep", 0).slice(1)}`;
      return { answer: "revoked", writes: [["HSET", name, "holder", row, `reason:${id}`, reason], publish] };
    });
  }

  /** Later fences of this key, or of the whole namespace, are larger than `fence`. */
  #raise(name: string, fence: number): string[] {
    const [clock, text] = [this.#clock, String(fence)];
    return clock === null ? ["HSET", name, "fence", text] : ["SET", clock, text];
  }

  async #run<T>(
    doing: keyof typeof DOING,
    key: string,
    io: Io,
    decide: Decide<T>,
    on: PerNode<Transactions> = this.#others,
  ): Promise<T> {
    const name = this.#env.names.record(key);
    try {
      return await on.run(name, (transactions) => transactions.run(name, decide, io));
    } catch (error) {
      throw redisError(error, DOING[doing], key);
    }
  }
}

/** The transactions of one connection, one after the other. */
class Transactions {
  readonly #connection: GetConnection;
  readonly #clock: string | null;
  readonly #replicas: number;
  #last: Promise<unknown> = Promise.resolve();

  constructor(connection: GetConnection, clock: string | null, replicas: number) {
    this.#connection = connection;
    this.#clock = clock;
    this.#replicas = replicas;
  }

  run<T>(name: string, decide: Decide<T>, io: Io): Promise<T> {
    const mine = this.#last.then(() => this.#run(name, decide, io));
    this.#last = mine.catch(() => {});
    return mine;
  }

  async #run<T>(name: string, decide: Decide<T>, io: Io): Promise<T> {
    const connection = await this.#connection(io);
    const close = (): void => connection.close();
    io.signal.addEventListener("abort", close);
    try {
      for (;;) {
        if (io.signal.aborted) throw new StoreUnavailableError("the caller has stopped waiting");
        const done = await this.#once(connection, name, decide, io);
        if (done !== null) return done.answer;
      }
    } catch (error) {
      // Keys that are still watched must not break the next transaction.
      if (error instanceof Error && error.message === FOREIGN) connection.send(["UNWATCH"]).catch(close);
      else connection.close();
      throw error;
    } finally {
      io.signal.removeEventListener("abort", close);
    }
  }

  /** null if another process wrote first. */
  async #once<T>(
    connection: Connection,
    name: string,
    decide: Decide<T>,
    io: Io,
  ): Promise<{ readonly answer: T } | null> {
    const { answer, writes = [], ifTooFew } = decide(await readRecord(connection, name, this.#clock));
    if (writes.length === 0) {
      await connection.send(["UNWATCH"]);
      return { answer };
    }
    const withinMs = waitMs([io.timeoutMs]);
    const isWaiting = ifTooFew !== undefined && this.#replicas > 0;
    const wait = isWaiting ? [["WAIT", String(this.#replicas), String(withinMs)]] : [];
    const sent = [["MULTI"], ...writes, ["EXEC"], ...wait].map((command) => connection.send(command));
    await Promise.allSettled(sent);
    const replies = await Promise.all(sent);
    const written = replies[writes.length + 1];
    if (written === null) return null;
    for (const reply of listOf(written)) if (reply instanceof Error) throw reply;
    const why = isWaiting
      ? tooFew({ count: Number(textOf(replies.at(-1))), withinMs }, this.#replicas)
      : null;
    return { answer: why === null || ifTooFew === undefined ? answer : ifTooFew(why) };
  }
}

/** Watches and reads a record. `clock`: the key with the highest fence; null in a Cluster. */
async function readRecord(connection: Connection, name: string, clock: string | null): Promise<KeyRecord> {
  const [, time, all, highest] = await Promise.all([
    connection.send(clock === null ? ["WATCH", name] : ["WATCH", name, clock]),
    connection.send(["TIME"]),
    connection.send(["HGETALL", name]).catch((error: unknown) => {
      if (error instanceof Error && error.message.startsWith("WRONGTYPE")) return null;
      throw error;
    }),
    clock === null ? null : connection.send(["GET", clock]),
  ]);
  const [seconds, micros] = listOf(time).map((part) => Number(textOf(part))) as [number, number];
  const timeUs = seconds * 1_000_000 + micros;
  const [none, stored] = [new Map<string, string>(), fieldsOf(all)];
  if (all === null) {
    const { endUs, last } = parseOld(textOf(await connection.send(["GET", name]).catch(() => null)));
    const floor = Math.max(last, numberOf(textOf(highest) || "0"));
    return { timeUs, fields: none, holder: "", rows: [], waiters: [], floor, otherEndUs: endUs };
  }
  const version = stored.get("v");
  if (stored.size > 0 && version === undefined) throw new Error(FOREIGN);
  const isOurs = version === undefined || version === VERSION;
  const fields = isOurs ? stored : none;
  const rows = [...fields].filter(([field]) => /^(holder$|held:)/.test(field)).map(([, row]) => row);
  if (!rows.every((row) => ROW.test(row))) throw new Error(FOREIGN);
  const waiters = [...fields].flatMap(([field, promise]) => {
    const [, id] = /^beat:(.*)/.exec(field) ?? [];
    if (id === undefined || numberOf(PROMISE.exec(promise)?.[1] ?? "") < timeUs) return [];
    return [id, promise, fields.get(`waiter:${id}`) ?? ""];
  });
  return {
    ...{ timeUs, fields, rows, waiters },
    holder: fields.get("holder") ?? "",
    floor: numberOf((clock === null ? fields.get("fence") : textOf(highest)) || "0"),
    otherEndUs: isOurs ? null : timeUs + UNKNOWN_US,
  };
}

/**
 * A string that version 0.1 or 0.2 wrote (P22). One with a queue is left to processes that run scripts, until
 * it expires.
 */
function parseOld(text: string): { readonly endUs: number; readonly last: number } {
  const last = (): number => numberOf(text.slice(4, 20));
  if (text.startsWith("hf2f")) return { endUs: 0, last: last() };
  if (text.startsWith("hf2h"))
    return { endUs: numberOf(text.slice(64, 80)), last: last() + numberOf(text.slice(20, 32)) };
  if (text.startsWith("hf2t")) return { endUs: Number.MAX_SAFE_INTEGER, last: 0 };
  throw new Error(FOREIGN);
}

function inspect(key: string, { timeUs, otherEndUs, rows, fields, waiters }: KeyRecord): LockInfo | null {
  if (otherEndUs !== null) return otherEndUs > timeUs ? readInspect([String(otherEndUs)], key, timeUs) : null;
  const held = rows.filter(
    (row) => !row.startsWith("r") && Math.max(column(row, "ends"), column(row, "keep")) > timeUs,
  );
  if (held.length === 0 && waiters.length === 0) return null;
  const holders = held.flatMap((row) =>
    [row].concat(["note:", "reason:"].map((field) => fields.get(field + idOf(row)) ?? "")),
  );
  const info = readInspect([holders, waiters, fields.get("limit") ?? "1"], key, timeUs);
  // Waiters without scripts are not in the record.
  return info === null || waiters.length > 0 ? info : { ...info, waiters: null };
}

function isHeldBy(row: string, id: string, timeUs: number): boolean {
  return /^[hv]/.test(row) && idOf(row) === id && column(row, "ends") > timeUs;
}

function idOf(row: string): string {
  return row.slice(111, 143);
}

function lastFence(row: string): number {
  return column(row, "fence") + column(row, "reserved");
}

function column(row: string, name: keyof typeof COLUMNS): number {
  const [from, length] = COLUMNS[name];
  return Number(row.slice(from, from + length));
}

function withColumn(row: string, name: keyof typeof COLUMNS, number: number): string {
  const [from, length] = COLUMNS[name];
  return row.slice(0, from) + pad(number, length) + row.slice(from + length);
}

/** Requests of which an attempt may still arrive: they outlive the rest of the record. */
function endedIn(fields: ReadonlyMap<string, string>): string[] {
  const ended = fields.get("ended");
  return ended === undefined ? [] : ["ended", ended];
}

function fieldsOf(reply: Reply): Map<string, string> {
  const words = listOf(reply).map(textOf);
  return new Map(words.flatMap((word, at) => (at % 2 === 0 ? [[word, words[at + 1] ?? ""] as const] : [])));
}

/** Anything but digits was not written by holdfast. */
function numberOf(text: string): number {
  if (!/^\d+$/.test(text)) throw new Error(FOREIGN);
  return Number(text);
}

function pad(number: number, digits: number): string {
  return String(number).padStart(digits, "0");
}

const ONLY_EXCLUSIVE = "the redis store does exclusive locks only: allow EVAL and EVALSHA to this user";

function rejectOtherKinds(request: Request): void {
  if (isPlain(request)) return;
  const { keys, mode, limit } = request;
  const kind = keys.length > 1 ? "multi" : mode === "shared" ? "shared" : limit > 1 ? "semaphore" : "keep";
  throw new UnsupportedError(`no ${kind} without scripts: ${ONLY_EXCLUSIVE}`, { key: keys[0] });
}
