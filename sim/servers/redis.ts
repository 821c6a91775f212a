// A Redis server in memory, under a clock that somebody else moves: the commands that the stores use, and their scripts, which run as
// they are. Text is bytes, one per character, as it is on the wire. It knows no client but the connection that asks.

import { compile } from "./lua/compile.ts";
import { luaLibrary } from "./lua/library.ts";
import { general, LuaError, Table, toText, type Value } from "./lua/values.ts";
import { createHash } from "node:crypto";

export type RedisReply = string | number | null | readonly RedisReply[];

/** What the server answers with a minus. */
export class ReplyError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ReplyError";
  }
}

export interface RedisSurroundings {
  /** The server's wall clock. */
  wallUs(): number;
  /** Forty hexadecimal digits, others after every start. */
  runId(): string;
  /** Gives how many heard it. */
  publish(channel: string, message: string): number;
  /** Every write is on disk before it is acknowledged. */
  readonly durable: boolean;
}

/** A string, a HASH or a ZSET. */
export type RedisValue = string | Map<string, string> | SortedSet;

interface Kept {
  readonly value: RedisValue;
  endsMs: number;
}

/** Members by score, then by name. */
export class SortedSet {
  readonly scores = new Map<string, number>();

  *[Symbol.iterator](): Generator<readonly [member: string, score: number]> {
    yield* [...this.scores].sort(([a, one], [b, two]) => one - two || (a < b ? -1 : 1));
  }
}

/** "OK" and its like, which scripts see as a table. */
class Status {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Answer = RedisReply | Status;

const WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value";
const OK = new Status("OK");
const GLOBALS = ["redis", "KEYS", "ARGV", ...Object.keys(luaLibrary)];

type Run = ReturnType<typeof compile>;
/** Compiled once, whichever server it is for. */
const compiled = new Map<string, { readonly sha: string; readonly run: Run }>();

function compiledOf(text: string): { readonly sha: string; readonly run: Run } {
  const known = compiled.get(text);
  if (known !== undefined) return known;
  const made = { sha: createHash("sha1").update(text, "latin1").digest("hex"), run: compile(text, GLOBALS) };
  compiled.set(text, made);
  return made;
}

export class RedisServer {
  readonly #around: RedisSurroundings;
  #keys = new Map<string, Kept>();
  #scripts = new Map<string, Run>();
  #runId = "";
  /** Counts what was written. */
  writes = 0;

  constructor(around: RedisSurroundings) {
    this.#around = around;
    this.start(false);
  }

  /** Scripts are forgotten by every start, data only where nothing has kept it. */
  start(forget: boolean): void {
    this.#runId = this.#around.runId();
    this.#scripts = new Map();
    if (forget) this.#keys = new Map();
    this.writes += 1;
  }

  /** The value of every key that is there. */
  *entries(): Generator<readonly [name: string, value: RedisValue]> {
    for (const name of this.#keys.keys()) {
      const value = this.#value(name);
      if (value !== null) yield [name, value];
    }
  }

  /** One command. Throws a ReplyError where Redis answers one. */
  run(words: readonly string[]): RedisReply {
    return plain(this.#run(words));
  }

  #run(words: readonly string[]): Answer {
    const [name = "", first = "", second = "", ...rest] = words;
    switch (name) {
      case "EVALSHA":
        return this.#evaluate(this.#scripts.get(first) ?? null, second, rest);
      case "EVAL": {
        const { sha, run } = compiledOf(first);
        this.#scripts.set(sha, run);
        return this.#evaluate(run, second, rest);
      }
      case "GET":
        return this.#get(first);
      case "SET":
        return this.#set(first, second, rest);
      case "PEXPIRE":
        return this.#expire(first, second);
      case "PTTL": {
        if (this.#value(first) === null) return -2;
        const { endsMs } = this.#keys.get(first) as Kept;
        return endsMs === Number.POSITIVE_INFINITY ? -1 : Math.ceil(endsMs - this.#around.wallUs() / 1e3);
      }
      case "EXISTS":
        return words.slice(1).filter((key) => this.#value(key) !== null).length;
      case "DEL":
        return words.slice(1).filter((key) => this.#value(key) !== null && this.#delete(key)).length;
      case "HMGET":
        return [second, ...rest].map((field) => this.#hash(first).get(field) ?? null);
      case "HGETALL":
        return [...this.#hash(first)].flat();
      case "HSET":
        return this.#setFields(first, [second, ...rest]);
      case "HDEL":
        return this.#deleteFrom(first, this.#hash(first), [second, ...rest]);
      case "ZADD": {
        const { scores } = this.#create(first, this.#sortedSet(first));
        const [member = ""] = rest;
        const isNew = !scores.has(member);
        scores.set(member, Number(second));
        return Number(isNew);
      }
      case "ZCARD":
        return this.#sortedSet(first).scores.size;
      case "ZREM":
        return this.#deleteFrom(first, this.#sortedSet(first).scores, [second, ...rest]);
      case "ZRANGE":
        return this.#range([...this.#sortedSet(first)], second, rest);
      case "TYPE": {
        const value = this.#value(first);
        const type =
          value === null
            ? "none"
            : typeof value === "string"
              ? "string"
              : value instanceof Map
                ? "hash"
                : "zset";
        return new Status(type);
      }
      case "SCAN":
        return this.#scan(second === "MATCH" ? (rest[0] as string) : "*");
      case "TIME": {
        const us = this.#around.wallUs();
        return [String(Math.floor(us / 1e6)), String(us % 1e6)];
      }
      case "PUBLISH":
        return this.#around.publish(first, second);
      case "INFO":
        return this.#info();
      case "ROLE":
        return ["master", 0, []];
      case "CONFIG":
        return [second, this.#setting(second)];
      default:
        throw new ReplyError(`ERR unknown command '${name}'`);
    }
  }

  #value(name: string): RedisValue | null {
    const kept = this.#keys.get(name);
    if (kept === undefined) return null;
    if (kept.endsMs > this.#around.wallUs() / 1e3) return kept.value;
    this.#keys.delete(name);
    return null;
  }

  #get(name: string): string | null {
    const value = this.#value(name);
    if (value !== null && typeof value !== "string") throw new ReplyError(WRONG_TYPE);
    return value;
  }

  /** An empty one where there is none. */
  #hash(name: string): Map<string, string> {
    const value = this.#value(name) ?? new Map<string, string>();
    if (!(value instanceof Map)) throw new ReplyError(WRONG_TYPE);
    return value;
  }

  #sortedSet(name: string): SortedSet {
    const value = this.#value(name) ?? new SortedSet();
    if (!(value instanceof SortedSet)) throw new ReplyError(WRONG_TYPE);
    return value;
  }

  /** Keeps a value that is about to be written to. */
  #create<T extends RedisValue>(name: string, value: T): T {
    if (!this.#keys.has(name)) this.#keys.set(name, { value, endsMs: Number.POSITIVE_INFINITY });
    this.writes += 1;
    return value;
  }

  #setFields(name: string, words: readonly string[]): number {
    const hash = this.#create(name, this.#hash(name));
    const before = hash.size;
    for (let at = 0; at + 1 < words.length; at += 2) hash.set(words[at] as string, words[at + 1] as string);
    return hash.size - before;
  }

  /** What becomes empty goes. */
  #deleteFrom(name: string, from: Map<string, unknown>, members: readonly string[]): number {
    const count = members.filter((member) => from.delete(member)).length;
    if (count > 0) this.writes += 1;
    if (from.size === 0) this.#keys.delete(name);
    return count;
  }

  /** ZRANGE by rank, or by score from the lowest up. */
  #range(
    all: readonly (readonly [string, number])[],
    from: string,
    [to, ...options]: readonly string[],
  ): RedisReply {
    if (options[0] === "BYSCORE") {
      if (from !== "-inf" || options[1] !== "LIMIT" || options[2] !== "0")
        throw new ReplyError("ERR not simulated");
      const found = all.filter(([, score]) => score <= Number(to)).slice(0, Number(options[3]));
      return found.map(([member]) => member);
    }
    const found = all.slice(Number(from), to === "-1" ? undefined : Number(to) + 1);
    if (options[0] !== "WITHSCORES") return found.map(([member]) => member);
    return found.flatMap(([member, score]) => [member, String(score)]);
  }

  #delete(name: string): boolean {
    this.writes += 1;
    return this.#keys.delete(name);
  }

  #set(name: string, value: string, options: readonly string[]): Status {
    const before = this.#keys.get(name);
    let endsMs = Number.POSITIVE_INFINITY;
    if (options[0] === "PX") endsMs = this.#endsMs(options[1] as string);
    else if (options[0] === "KEEPTTL") endsMs = before?.endsMs ?? endsMs;
    else if (options.length > 0) throw new ReplyError("ERR syntax error");
    this.#keys.set(name, { value, endsMs });
    this.writes += 1;
    return OK;
  }

  #expire(name: string, ms: string): number {
    if (this.#value(name) === null) return 0;
    this.writes += 1;
    if (ms === "0") {
      this.#keys.delete(name);
      return 1;
    }
    (this.#keys.get(name) as Kept).endsMs = this.#endsMs(ms);
    return 1;
  }

  #endsMs(ms: string): number {
    if (!/^[1-9]\d*$/.test(ms)) throw new ReplyError("ERR value is not an integer or out of range");
    return this.#around.wallUs() / 1e3 + Number(ms);
  }

  /** All of it in one page. */
  #scan(pattern: string): RedisReply {
    const start = pattern.replace(/\*$/, "").replaceAll(/\\(.)/g, "$1");
    return ["0", [...this.entries()].map(([name]) => name).filter((name) => name.startsWith(start))];
  }

  #info(): string {
    const aof = this.#around.durable ? "1" : "0";
    const lines = ["redis_version:7.4.6", "role:master", `run_id:${this.#runId}`];
    return [...lines, `aof_enabled:${aof}`, "cluster_enabled:0", "maxmemory:0", ""].join("\r\n");
  }

  #setting(name: string): string {
    const { durable } = this.#around;
    return name === "appendonly" ? (durable ? "yes" : "no") : durable ? "always" : "everysec";
  }

  #evaluate(run: Run | null, count: string, rest: readonly string[]): Answer {
    if (run === null) throw new ReplyError("NOSCRIPT No matching script. Please use EVAL.");
    const keys = Number(count);
    const redis = new Table();
    redis.set("call", (...args) => [this.#called(args)]);
    redis.set("pcall", (...args) => [this.#tried(args)]);
    try {
      const globals = {
        ...luaLibrary,
        redis,
        KEYS: Table.of(rest.slice(0, keys)),
        ARGV: Table.of(rest.slice(keys)),
      };
      return replyOf(run(globals)[0]);
    } catch (error) {
      if (error instanceof LuaError) throw new ReplyError(`ERR user_script: ${error.message}`);
      throw error;
    }
  }

  #called(args: readonly Value[]): Value {
    // A number goes out with as many digits as it has.
    return valueOf(this.#run(args.map((arg) => (typeof arg === "number" ? general(arg, 17) : toText(arg)))));
  }

  #tried(args: readonly Value[]): Value {
    try {
      return this.#called(args);
    } catch (error) {
      if (!(error instanceof ReplyError)) throw error;
      const table = new Table();
      table.set("err", error.message);
      return table;
    }
  }
}

function plain(answer: Answer): RedisReply {
  return answer instanceof Status ? answer.text : answer;
}

/** An answer as a script sees it. */
function valueOf(answer: Answer): Value {
  if (answer === null) return false;
  if (answer instanceof Status) {
    const table = new Table();
    table.set("ok", answer.text);
    return table;
  }
  if (typeof answer === "string" || typeof answer === "number") return answer;
  return Table.of(answer.map(valueOf));
}

/** What a script gives, as an answer: fractions are cut off, and a list ends at its first nil. */
function replyOf(value: Value): RedisReply {
  if (value === undefined || value === false || typeof value === "function") return null;
  if (value === true) return 1;
  if (typeof value === "number") return Math.trunc(value);
  if (typeof value === "string") return value;
  const error = value.get("err");
  if (typeof error === "string") throw new ReplyError(error);
  const end = value.list.indexOf(undefined);
  return (end === -1 ? value.list : value.list.slice(0, end)).map(replyOf);
}
