// Locks without scripts, for servers that forbid them: exclusive locks on one key, by polling and without a
// place in the queue. The keys and the record are those of the scripts, so that processes with and without
// scripts exclude each other.
//
// 1. WATCH, TIME, HGETALL and GET of the highest fence leave together, on a connection of their own. A grant
//    counts from the send of the attempt, which is no later than that of TIME.
// 2. The decision is made here, under the server's time as it was read.
// 3. MULTI, the writes and EXEC leave together, and WAIT behind them where replicas must acknowledge. If
//    somebody else wrote first, EXEC writes nothing, and step 1 comes again.

import { LockError, StoreUnavailableError, UnsupportedError } from "../../core/errors.ts";
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
import { type Commands, type CommandsEnv, DOING, isPlain, lifeOf } from "./commands.ts";
import { redisError } from "./errors.ts";
import { CLAIM_MS } from "./guarantees.ts";
import type { OpenRequest } from "./open-requests.ts";
import { type OwnConnection, PerNode } from "./own-connection.ts";
import { listOf, type Reply, type Session, textOf } from "./port.ts";
import { type Acks, tooFew, waitMs } from "./replica-ack.ts";
import { unknownRenewal } from "./script-commands.ts";
import { labelText, readInspect } from "./script-replies.ts";

const VERSION = "3";
const KEEP_FENCE_MS = "3600000";
const FOREIGN = "HOLDFAST-FOREIGN";
/** How often a waiter asks. */
const POLL_MS = 250;
const ROW_LENGTH = 166;

/** What was read of a key. */
interface Seen {
  readonly timeUs: number;
  readonly fields: ReadonlyMap<string, string>;
  /** Held by an older version until then; 0 where its record is free; null where there is none. */
  readonly oldEndUs: number | null;
  /** The highest fence of the namespace, or of the key in a Cluster. */
  readonly floor: number;
}

/** What to write, if anything, and what to answer when it is written. */
interface Decision<T> {
  readonly answer: T;
  readonly writes: readonly (readonly string[])[];
  /** Whether replicas must acknowledge it. */
  readonly wait?: boolean;
}

interface Done<T> {
  readonly answer: T;
  readonly acks: Acks | null;
}

export class TransactionCommands implements Commands {
  readonly #env: CommandsEnv;
  readonly #clock: string | null;
  readonly #attempts: PerNode<Transactions>;
  readonly #renewals: PerNode<Transactions>;
  readonly #others: PerNode<Transactions>;
  /** Attempts under way, by id. */
  readonly #attempting = new Map<string, { ended: boolean }>();

  constructor(env: CommandsEnv) {
    this.#env = env;
    const { port, replicas } = env;
    this.#clock = port.slotOf === undefined ? env.names.clock : null;
    const own = (): PerNode<Transactions> => new PerNode(port, (one) => new Transactions(one, replicas));
    this.#others = own();
    // Where replicas are waited for, nothing else must stand behind it.
    this.#attempts = replicas === 0 ? this.#others : own();
    this.#renewals = replicas === 0 ? this.#others : own();
  }

  async attempt(request: Request, _open: OpenRequest, io: Io): Promise<AttemptAnswer<null>> {
    refuseOthers(request);
    const state = { ended: false };
    this.#attempting.set(request.id, state);
    try {
      const { answer, acks } = await this.#run<AttemptAnswer<null>>(
        this.#attempts,
        "acquire",
        request.keys[0] as string,
        io,
        (seen) =>
          // The end of this request was written first, over another connection: it must not be granted again.
          state.ended ? { answer: { ended: true }, writes: [] } : this.#decide(request, seen),
      );
      const why = acks === null ? null : tooFew(acks, this.#env.replicas);
      return why === null ? answer : { unconfirmed: { why } };
    } finally {
      if (this.#attempting.get(request.id) === state) this.#attempting.delete(request.id);
    }
  }

  #decide(request: Request, seen: Seen): Decision<AttemptAnswer<null>> {
    const { id, ttlMs, graceMs, fenceRoom, label, actor } = request;
    const key = request.keys[0] as string;
    const [name, endsName] = [this.#env.names.record(key), this.#env.names.ends(key)];
    const { timeUs, fields } = seen;
    const endUs = timeUs + Math.ceil((ttlMs + graceMs) * 1_000);
    const life = ["PEXPIRE", name, lifeOf(ttlMs + graceMs)];
    const granted = (fence: number): AttemptAnswer<null> => ({
      granted: { fences: [BigInt(fence)], fenceRoom, validMs: ttlMs, cookie: null },
    });
    const row = fields.get("holder") ?? "";
    if (isOwn(row, id, timeUs)) {
      if (row.startsWith("v")) return { answer: { ended: true }, writes: [] };
      const ends = Math.max(column(row, 67, 83), endUs);
      const writes = [["HSET", name, "holder", withColumn(row, 67, ends)], life];
      return { answer: granted(column(row, 3, 19)), writes, wait: true };
    }
    const holders = this.#inspected(key, seen)?.holders.slice(0, 3) ?? [];
    if (holders.length > 0 || firstWaiter(seen) !== null || isNewer(seen))
      return { answer: { busy: { holders, againMs: POLL_MS, holderCount: holders.length } }, writes: [] };
    // Those that ended unseen may have used all their numbers.
    const used = [...fields].filter(([field]) => field === "holder" || field.startsWith("held:"));
    const floor = Math.max(seen.floor, ...used.map(([, one]) => column(one, 3, 19) + column(one, 20, 32)));
    const fence = Math.max(timeUs, floor + 1);
    const times = [fence, timeUs, endUs, 0].map((number) => pad(number, 16));
    const columns = [times[0], pad(fenceRoom, 12), ...times, "0000001 x", id, this.#env.proc];
    const text = `h- ${columns.join(" ")} ${labelText(label)} ${actor}`;
    const writes = [["DEL", name, endsName], ["HSET", name, "v", VERSION, "holder", text], life];
    return { answer: granted(fence), writes: [...writes, this.#raise(name, fence)], wait: true };
  }

  async renew(items: readonly RenewItem<null>[], io: Io): Promise<RenewAnswer[]> {
    return Promise.all(
      items.map((item) =>
        this.#renew(item, io).catch((cause: unknown): RenewAnswer => ({ state: "unknown", cause })),
      ),
    );
  }

  async #renew({ request, ttlMs, lastFences, label }: RenewItem<null>, io: Io): Promise<RenewAnswer> {
    const key = request.keys[0] as string;
    const name = this.#env.names.record(key);
    const holdMs = ttlMs + request.graceMs;
    const { answer, acks } = await this.#run<RenewAnswer>(
      this.#renewals,
      "renew",
      key,
      io,
      ({ timeUs, fields }) => {
        const row = fields.get("holder") ?? "";
        if (!isOwn(row, request.id, timeUs)) return { answer: { state: "lost", reason: "gone" }, writes: [] };
        if (row.startsWith("v")) {
          const detail = fields.get(`reason:${request.id}`) ?? "";
          return { answer: { state: "lost", reason: "revoked", detail }, writes: [] };
        }
        const ends = Math.max(column(row, 67, 83), timeUs + Math.ceil(holdMs * 1_000));
        const last = Math.min(Number(lastFences[0] ?? 0), column(row, 3, 19) + column(row, 20, 32));
        const moved = withColumn(withColumn(row, 67, ends), 33, Math.max(column(row, 33, 49), last));
        const text = `${moved.slice(0, 161)}${labelText(label)} ${actorOf(row)}`;
        const writes = [
          ["HSET", name, "holder", text],
          ["PEXPIRE", name, lifeOf(holdMs)],
        ];
        return { answer: { state: "renewed", validMs: ttlMs }, writes, wait: true };
      },
    );
    const why = acks === null ? null : tooFew(acks, this.#env.replicas);
    return why === null ? answer : unknownRenewal(why);
  }

  /**
   * Writes whatever it finds: that breaks the transaction of an attempt of this id which is still under way
   * (P8).
   */
  async end({ keys, id }: Request, used: readonly string[], _lateUntilMs: number, io: Io): Promise<boolean> {
    const key = keys[0] as string;
    const attempting = this.#attempting.get(id);
    if (attempting !== undefined) attempting.ended = true;
    const { answer } = await this.#run(this.#others, "release", key, io, (seen) => {
      const row = seen.fields.get("holder") ?? "";
      const held = isOwn(row, id, seen.timeUs);
      const name = this.#env.names.record(key);
      if (seen.oldEndUs !== null || isNewer(seen)) return { answer: false, writes: [] };
      if (held) return { answer: true, writes: this.#free(key, row, used[0] ?? "", seen) };
      if (seen.fields.size > 0) return { answer: false, writes: [["HSET", name, "v", VERSION]] };
      const writes = [
        ["HSET", name, "v", VERSION],
        ["DEL", name],
      ];
      return { answer: false, writes };
    });
    return answer;
  }

  /** Takes a holder out, and notifies the first waiter. */
  #free(key: string, row: string, used: string, seen: Seen): string[][] {
    const name = this.#env.names.record(key);
    const id = row.slice(111, 143);
    const fence = column(row, 3, 19);
    const top = fence + column(row, 20, 32);
    const last = used === "" ? top : Math.min(top, Math.max(fence, column(row, 33, 49), Number(used)));
    const raised = last > seen.floor ? [this.#raise(name, last)] : [];
    const waiter = firstWaiter(seen);
    if (waiter !== null) {
      const called = withColumn(waiter.beat, 30, seen.timeUs + CLAIM_MS * 1_000);
      return [
        ["HDEL", name, "holder", `note:${id}`, `reason:${id}`],
        ["HSET", name, `beat:${waiter.id}`, called],
        ...raised,
        ["PUBLISH", this.#env.names.channels + waiter.proc, `turn ${waiter.id}`],
      ];
    }
    const ends = this.#env.names.ends(key);
    if (this.#clock !== null) return [["DEL", name, ends], ...raised];
    const floor = String(Math.max(last, seen.floor));
    return [
      ["DEL", name, ends],
      ["HSET", name, "v", VERSION, "fence", floor],
      ["PEXPIRE", name, KEEP_FENCE_MS],
    ];
  }

  async owns({ keys, id }: Request, io: Io): Promise<boolean> {
    const { answer } = await this.#run(this.#others, "owns", keys[0] as string, io, ({ fields, timeUs }) => {
      const row = fields.get("holder") ?? "";
      return { answer: isOwn(row, id, timeUs) && row.startsWith("h"), writes: [] };
    });
    return answer;
  }

  async note({ keys, id }: Request, note: Note, io: Io): Promise<void> {
    const key = keys[0] as string;
    const name = this.#env.names.record(key);
    await this.#run(this.#others, "note", key, io, ({ fields, timeUs }) => {
      const row = fields.get("holder") ?? "";
      if (!isOwn(row, id, timeUs)) return { answer: null, writes: [] };
      const flagged = `${row[0]}${note === null ? "-" : "n"}${row.slice(2)}`;
      const write = ["HSET", name, "holder", flagged, `note:${id}`, note?.waitingFor ?? ""];
      return { answer: null, writes: [write] };
    });
  }

  async inspect(keys: readonly string[], io: Io): Promise<(LockInfo | LockError | null)[]> {
    return Promise.all(
      keys.map((key) =>
        this.#run(this.#others, "inspect", key, io, (seen) => ({
          answer: this.#inspected(key, seen),
          writes: [],
        })).then(
          ({ answer }) => answer,
          (error: unknown) => {
            if (LockError.is(error) && error.code === "ERR_STORE_UNSAFE") return error;
            throw error;
          },
        ),
      ),
    );
  }

  async revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    const name = this.#env.names.record(key);
    const { answer } = await this.#run<RevokeAnswer>(this.#others, "revoke", key, io, (seen) => {
      if (this.#inspected(key, seen)?.holders.length === undefined) return { answer: "free", writes: [] };
      const row = seen.fields.get("holder");
      if (row === undefined)
        throw new UnsupportedError(
          "without scripts only plain locks can be revoked: allow EVAL and EVALSHA",
          { key },
        );
      const [fence, id, proc] = [column(row, 3, 19), row.slice(111, 143), row.slice(144, 160)];
      const asked = options.fence === undefined ? fence : Number(options.fence);
      if (asked < fence || asked > fence + column(row, 20, 32)) return { answer: "other-fence", writes: [] };
      const publish = ["PUBLISH", this.#env.names.channels + proc, `revoked ${id} ${options.reason}`];
      if (options.force || row.startsWith("k"))
        return { answer: "revoked", writes: [...this.#free(key, row, "", seen), publish] };
      const write = [
        "HSET",
        name,
        "holder",
        `v${withColumn(row, 84, 0).slice(1)}`,
        `reason:${id}`,
        options.reason,
      ];
      return { answer: "revoked", writes: [write, publish] };
    });
    return answer;
  }

  #inspected(key: string, { fields, timeUs, oldEndUs }: Seen): LockInfo | null {
    if (oldEndUs !== null) return oldEndUs > timeUs ? readInspect([String(oldEndUs)], key, timeUs) : null;
    const [holders, waiters]: [string[], string[]] = [[], []];
    for (const [field, text] of fields) {
      if (field === "holder" || field.startsWith("held:")) {
        const id = text.slice(111, 143);
        if (text.startsWith("r") || Math.max(column(text, 67, 83), column(text, 84, 100)) <= timeUs) continue;
        holders.push(text, fields.get(`note:${id}`) ?? "", fields.get(`reason:${id}`) ?? "");
      } else if (field.startsWith("beat:") && column(text, 11, 27) >= timeUs) {
        const id = field.slice("beat:".length);
        waiters.push(id, text, fields.get(`waiter:${id}`) ?? "");
      }
    }
    if (holders.length === 0 && waiters.length === 0) return null;
    const info = readInspect([holders, waiters, fields.get("limit") ?? "1"], key, timeUs);
    // Who waits without scripts has no place in the record.
    return info === null || waiters.length > 0 ? info : { ...info, waiters: null };
  }

  /** The fences of this key, or of the whole namespace, begin above `fence` from now on. */
  #raise(name: string, fence: number): string[] {
    return this.#clock === null
      ? ["HSET", name, "fence", String(fence)]
      : ["SET", this.#clock, String(fence)];
  }

  async #run<T>(
    on: PerNode<Transactions>,
    doing: keyof typeof DOING,
    key: string,
    io: Io,
    decide: (seen: Seen) => Decision<T>,
  ): Promise<Done<T>> {
    const name = this.#env.names.record(key);
    try {
      return await on.of(name).run(name, this.#clock, decide, io);
    } catch (error) {
      throw redisError(error, DOING[doing], key);
    }
  }
}

/** One transaction after the other on one connection. */
class Transactions {
  readonly #connection: OwnConnection;
  readonly #replicas: number;
  #last: Promise<unknown> = Promise.resolve();

  constructor(connection: OwnConnection, replicas: number) {
    this.#connection = connection;
    this.#replicas = replicas;
  }

  run<T>(name: string, clock: string | null, decide: (seen: Seen) => Decision<T>, io: Io): Promise<Done<T>> {
    const mine = this.#last.then(() => this.#run(name, clock, decide, io));
    this.#last = mine.catch(() => {});
    return mine;
  }

  async #run<T>(
    name: string,
    clock: string | null,
    decide: (seen: Seen) => Decision<T>,
    io: Io,
  ): Promise<Done<T>> {
    const session = await this.#connection.get(io);
    const drop = (): void => session.close();
    io.signal.addEventListener("abort", drop);
    try {
      for (;;) {
        if (io.signal.aborted) throw new StoreUnavailableError("nobody waits for it any more");
        const done = await this.#once(session, name, clock, decide, io);
        if (done !== null) return done;
      }
    } catch (error) {
      // What is watched or queued on it must not meet the next transaction.
      if (!(error instanceof Error) || error.message !== FOREIGN || !(await unwatched(session)))
        session.close();
      throw error;
    } finally {
      io.signal.removeEventListener("abort", drop);
    }
  }

  /** null when somebody else wrote first. */
  async #once<T>(
    session: Session,
    name: string,
    clock: string | null,
    decide: (seen: Seen) => Decision<T>,
    io: Io,
  ): Promise<Done<T> | null> {
    const { answer, writes, wait = false } = decide(await read(session, name, clock));
    if (writes.length === 0) {
      await session.send(["UNWATCH"]);
      return { answer, acks: null };
    }
    const withinMs = waitMs([io.timeoutMs]);
    const waiting = wait && this.#replicas > 0;
    const replies = await sendAll(session, [
      ["MULTI"],
      ...writes,
      ["EXEC"],
      ...(waiting ? [["WAIT", String(this.#replicas), String(withinMs)]] : []),
    ]);
    const written = replies[writes.length + 1];
    if (written === null) return null;
    for (const reply of listOf(written)) if (reply instanceof Error) throw reply;
    return { answer, acks: waiting ? { count: Number(textOf(replies.at(-1))), withinMs } : null };
  }
}

async function read(session: Session, name: string, clock: string | null): Promise<Seen> {
  const [, time, all, floor] = await Promise.all([
    session.send(clock === null ? ["WATCH", name] : ["WATCH", name, clock]),
    session.send(["TIME"]),
    session.send(["HGETALL", name]).catch((error: unknown) => {
      if (error instanceof Error && error.message.startsWith("WRONGTYPE")) return null;
      throw error;
    }),
    clock === null ? null : session.send(["GET", clock]),
  ]);
  const [seconds, micros] = listOf(time).map((part) => Number(textOf(part))) as [number, number];
  const timeUs = seconds * 1_000_000 + micros;
  if (all === null) {
    const old = await session.send(["GET", name]).catch(() => null);
    const { endUs, last } = readOld(textOf(old));
    return { timeUs, fields: new Map(), oldEndUs: endUs, floor: Math.max(last, Number(textOf(floor))) };
  }
  const fields = fieldsOf(all);
  if (fields.size > 0 && !fields.has("v")) throw new Error(FOREIGN);
  if (fields.get("v") === VERSION) refuseDamage(fields);
  const fence = clock === null ? (fields.get("fence") ?? "0") : textOf(floor);
  return { timeUs, fields, oldEndUs: null, floor: Number(fence) };
}

/** RESP 2 gives a flat list; of RESP 3 a client makes a map or an object. */
function fieldsOf(reply: Reply): Map<string, string> {
  if (!Array.isArray(reply)) {
    const given: unknown = reply;
    const pairs = given instanceof Map ? [...given.entries()] : Object.entries(Object(given) as object);
    return new Map(pairs.map(([field, value]) => [textOf(field as Reply), textOf(value as Reply)]));
  }
  const words = listOf(reply).map(textOf);
  const fields = new Map<string, string>();
  for (let at = 0; at + 1 < words.length; at += 2) fields.set(words[at] as string, words[at + 1] as string);
  return fields;
}

/**
 * A string that version 0.1 or 0.2 wrote (P22). One with a queue is left to processes that run scripts, until
 * it expires.
 */
function readOld(text: string): { readonly endUs: number; readonly last: number } {
  switch (text.slice(0, 4)) {
    case "hf2f":
      return { endUs: 0, last: column(text, 4, 20) };
    case "hf2h":
      return { endUs: column(text, 64, 80), last: column(text, 4, 20) + column(text, 20, 32) };
    case "hf2t":
      return { endUs: Number.MAX_SAFE_INTEGER, last: 0 };
    default:
      throw new Error(FOREIGN);
  }
}

/** What another version wrote is not touched. */
function isNewer({ fields }: Seen): boolean {
  return fields.size > 0 && fields.get("v") !== VERSION;
}

function refuseDamage(fields: ReadonlyMap<string, string>): void {
  for (const [field, text] of fields) {
    const isRow = field === "holder" || field.startsWith("held:");
    if (!isRow && !field.startsWith("beat:")) continue;
    if (text.length < (isRow ? ROW_LENGTH : 63)) throw new Error(FOREIGN);
    const columns = isRow
      ? [
          [3, 19],
          [20, 32],
          [33, 49],
          [50, 66],
          [67, 83],
          [84, 100],
          [101, 108],
          [161, 165],
        ]
      : [
          [0, 10],
          [11, 27],
          [30, 46],
          [47, 63],
        ];
    for (const [from, to] of columns as [number, number][]) column(text, from, to);
    if (isRow && !/^[hvkr]/.test(text)) throw new Error(FOREIGN);
  }
}

interface FirstWaiter {
  readonly id: string;
  readonly beat: string;
  readonly proc: string;
}

/** The first in the queue that is alive and has not missed its call. */
function firstWaiter({ fields, timeUs }: Seen): FirstWaiter | null {
  let first: FirstWaiter | null = null;
  for (const [field, beat] of fields) {
    if (!field.startsWith("beat:") || beat[28] === "m" || column(beat, 11, 27) < timeUs) continue;
    const called = column(beat, 30, 46);
    const id = field.slice("beat:".length);
    if ((called > 0 && called < timeUs) || (first !== null && beat > first.beat)) continue;
    first = { id, beat, proc: (fields.get(`waiter:${id}`) ?? "").slice(0, 16) };
  }
  return first;
}

function isOwn(row: string, id: string, timeUs: number): boolean {
  return row !== "" && row.slice(111, 143) === id && /^[hv]/.test(row) && column(row, 67, 83) > timeUs;
}

function actorOf(row: string): string {
  const rest = Buffer.from(row.slice(166));
  return rest.subarray(Number(row.slice(161, 165)) + 1).toString();
}

function column(row: string, from: number, to: number): number {
  const text = row.slice(from, to);
  if (!/^\d+$/.test(text)) throw new Error(FOREIGN);
  return Number(text);
}

/** A column of 16 digits, changed. */
function withColumn(row: string, from: number, number: number): string {
  return row.slice(0, from) + pad(number, 16) + row.slice(from + 16);
}

function pad(number: number, digits: number): string {
  return String(number).padStart(digits, "0");
}

/** Whether the connection can be used by the next transaction. */
function unwatched(session: Session): Promise<boolean> {
  return session.send(["UNWATCH"]).then(
    () => true,
    () => false,
  );
}

/** One behind the other in one go. Rejects with the first that failed, when all are answered. */
async function sendAll(session: Session, commands: readonly (readonly string[])[]): Promise<Reply[]> {
  const settled = await Promise.allSettled(commands.map((words) => session.send(words)));
  const failed = settled.find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  return settled.map((one) => (one as PromiseFulfilledResult<Reply>).value);
}

function refuseOthers(request: Request): void {
  if (isPlain(request)) return;
  const { keys, mode, limit } = request;
  const kind = keys.length > 1 ? "multi" : mode === "shared" ? "shared" : limit > 1 ? "semaphore" : "keep";
  throw new UnsupportedError(
    `the redis store cannot do ${kind} without scripts: it does exclusive locks only. ` +
      "Allow EVAL and EVALSHA to this user, or use a lock",
    { key: keys[0] },
  );
}
