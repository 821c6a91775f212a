// Plain locks on one key. The attempts and releases of one turn of the event loop go in one call of
// scripts/fast-path.lua, because most of the cost of a lock is the call. For a contended key the script runs
// the rules in the same call. Keys that readers or permits have touched need a script of their own.

import { isUnsent } from "../../../core/errors.ts";
import type { AttemptAnswer, Request } from "../../../core/store.ts";
import { type CommandsEnv, DOING, lifeOf } from "./commands.ts";
import { redisError } from "../errors.ts";
import { CLAIM_MS } from "../guarantees.ts";
import type { OpenRequest } from "./open-requests.ts";
import { type CallContext, type Reply, textOf } from "../client/port.ts";
import { type BatchReply, failureIn, grantOf, labelText, readAttempt, readBatch } from "./script-replies.ts";
import { scripts } from "../scripts.generated.ts";
import type { ServerClocks } from "./server-clocks.ts";

/** A call has half as many more at most: they would keep the server from other work for too long. */
const FULL_BATCH = 32;
const SCRIPT = scripts["fast-path"];
/** Columns 84 to 111 of the row of a plain lock: not kept, one permit, exclusive. */
const PLAIN = " 0000000000000000 0000001 x ";
const [GRANTED, LATE, RELEASED] = ["g", "l", "1"];

type Settle<T> = (error: unknown, answer: T | null) => void;
type TimedCall = CallContext & { readonly timeoutMs: number };

/** The scripts for one request each. */
export interface SingleCommands {
  attemptAlone(request: Request, open: OpenRequest, io: TimedCall): Promise<AttemptAnswer<null>>;
  endAlone(request: Request, used: readonly string[], lateUntilMs: number, io: CallContext): Promise<boolean>;
  readonly clocks: ServerClocks;
  /** The server's time at `deadlineMs` of our clock. Asks a server whose time is unknown. */
  notAfterMs(key: string, deadlineMs: number, io: CallContext): Promise<number>;
}

/** An attempt if it has an open request, else a release. */
interface Job {
  readonly request: Request;
  readonly name: string;
  readonly item: string;
  readonly open: OpenRequest | null;
  readonly used: string;
  readonly io: TimedCall;
  readonly attempted: Settle<AttemptAnswer<null>> | null;
  readonly released: Settle<boolean> | null;
  /** How often it was sent. */
  tries: number;
}

export class FastPath {
  readonly #env: CommandsEnv;
  readonly #commands: SingleCommands;
  /** The end of the first argument of the script. */
  readonly #head: string;
  readonly #isCluster: boolean;
  #jobs: Job[] = [];
  /** Numbers of calls. Answers come in the order of the calls. */
  #lastSent = 0;
  #lastAnswered = 0;
  /** How many requests the last call had. */
  #lastSize = 1;
  /** Of the last request. Most requests have the same. */
  #parts: ItemParts | null = null;
  readonly #flushSoon = (): void => this.#flush();

  constructor(env: CommandsEnv, commands: SingleCommands, isCluster: boolean) {
    this.#env = env;
    this.#commands = commands;
    this.#isCluster = isCluster;
    this.#head = `${env.proc}${pad(CLAIM_MS, 5)}${isCluster ? "0" : "1"}${env.names.channels}`;
  }

  /** Never calls back synchronously. */
  attempt(request: Request, open: OpenRequest, io: TimedCall, settle: Settle<AttemptAnswer<null>>): void {
    if (this.#parts === null || !this.#parts.fits(request))
      this.#parts = new ItemParts(request, this.#env.proc);
    const { start, end } = this.#parts;
    this.#add({
      request,
      name: this.#env.names.record(request.keys[0] as string),
      item: `${start}${request.id}${end}${request.actor}`,
      open,
      used: "",
      io,
      attempted: settle,
      released: null,
      tries: 0,
    });
  }

  release(request: Request, used: string, io: TimedCall, settle: Settle<boolean>): void {
    const item = `h- ${used.padStart(16, "0")}${request.id}`;
    this.#add({
      request,
      name: this.#env.names.record(request.keys[0] as string),
      item,
      open: null,
      used,
      io,
      attempted: null,
      released: settle,
      tries: 0,
    });
  }

  #add(job: Job): void {
    // A task that is alone need not wait for others.
    const isAlone = this.#lastSent === this.#lastAnswered && this.#lastSize === 1 && this.#jobs.length === 0;
    if (isAlone) return this.#send([job]);
    this.#jobs.push(job);
    // When all tasks of this turn of the event loop have asked.
    if (this.#jobs.length === 1) process.nextTick(this.#flushSoon);
  }

  #flush(): void {
    const jobs = this.#jobs;
    this.#jobs = [];
    // The keys of a Cluster may be on different nodes.
    const calls = this.#isCluster ? jobs.length : Math.max(1, Math.round(jobs.length / FULL_BATCH));
    const size = Math.ceil(jobs.length / calls);
    if (calls === 1) this.#send(jobs);
    else for (let at = 0; at < jobs.length; at += size) this.#send(jobs.slice(at, at + size));
  }

  #send(all: readonly Job[]): void {
    const jobs = all.some(({ open }) => open?.isEnded === true) ? all.filter(isWanted) : all;
    const [first] = jobs;
    if (first === undefined) return;
    const key = first.request.keys[0] as string;
    const sentMs = this.#env.system.monoMs();
    let timeoutMs = 0;
    for (const { io } of jobs) timeoutMs = Math.max(timeoutMs, io.timeoutMs);
    const notAfterMs = this.#commands.clocks.at(key, sentMs + timeoutMs);
    if (notAfterMs === null) {
      this.#commands.notAfterMs(key, sentMs + timeoutMs, first.io).then(
        () => this.#send(jobs),
        (error: unknown) => fail(jobs, error),
      );
      return;
    }
    const words: string[] = ["EVALSHA", SCRIPT.sha, String(jobs.length + (this.#isCluster ? 0 : 1))];
    for (const { name } of jobs) words.push(name);
    if (!this.#isCluster) words.push(this.#env.names.clock);
    words.push(pad(notAfterMs, 13) + this.#head);
    for (const job of jobs) {
      job.tries += 1;
      job.open?.sent(notAfterMs);
      words.push(job.item);
    }
    const call = ++this.#lastSent;
    this.#lastSize = jobs.length;
    const answered = (reply: Reply): void => {
      this.#lastAnswered = Math.max(this.#lastAnswered, call);
      this.#answer(jobs, reply, sentMs);
    };
    const failed = (error: unknown): void => {
      this.#lastAnswered = Math.max(this.#lastAnswered, call);
      this.#fail(jobs, error);
    };
    this.#env.port.send(words, first.io, first.name).then(answered, (error: unknown) => {
      if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) return failed(error);
      // Nothing has run: the server was restarted, or its scripts were flushed.
      words[0] = "EVAL";
      words[1] = SCRIPT.text;
      this.#env.port.send(words, first.io, first.name).then(answered, failed);
    });
  }

  #fail(jobs: readonly Job[], error: unknown): void {
    if (isUnsent(error)) for (const { open } of jobs) if (open !== null) open.unanswered -= 1;
    fail(jobs, error);
  }

  #answer(jobs: readonly Job[], reply: Reply, sentMs: number): void {
    let batch: BatchReply;
    try {
      batch = readBatch(reply, jobs.length);
    } catch (error) {
      return fail(jobs, error);
    }
    const { timeMs, fence, letters, decisions } = batch;
    this.#commands.clocks.learn((jobs[0] as Job).request.keys[0] as string, timeMs, sentMs);
    let read = 1;
    for (let at = 0; at < jobs.length; at += 1) {
      const job = jobs[at] as Job;
      const letter = letters[at];
      if (job.open !== null) job.open.unanswered -= 1;
      try {
        if (letter === GRANTED) job.attempted?.(null, { granted: grantOf([fence], job.request) });
        else if (letter === RELEASED) job.released?.(null, true);
        else if (letter === LATE) this.#late(job);
        else this.#decided(job, decisions[read++]);
      } catch (error) {
        fail([job], error);
      }
    }
  }

  /** The answer taught the server's time, so a second attempt arrives in time. */
  #late(job: Job): void {
    if (job.tries === 1) this.#add(job);
    else this.#askAlone(job);
  }

  /** The rules have decided. */
  #decided(job: Job, answer: Reply): void {
    const { request } = job;
    if (Array.isArray(answer)) return job.attempted?.(null, readAttempt(answer, request));
    const text = textOf(answer);
    if (job.released !== null && (text === "1" || text === "0")) return job.released(null, text === "1");
    const failure = failureIn(text, "fast-path", request.keys[0]);
    if (failure === null) return this.#askAlone(job);
    job.attempted?.(failure, null);
    job.released?.(failure, null);
  }

  /** By a script of its own. */
  #askAlone({ request, open, used, io, attempted, released }: Job): void {
    if (attempted !== null) {
      this.#commands.attemptAlone(request, open as OpenRequest, io).then(
        (said) => attempted(null, said),
        (error: unknown) => attempted(error, null),
      );
    } else {
      this.#commands.endAlone(request, [used], 0, io).then(
        (held) => released?.(null, held),
        (error: unknown) => released?.(error, null),
      );
    }
  }
}

/** The item of an attempt without the id and the actor, as scripts/fast-path.lua describes it. */
class ItemParts {
  readonly start: string;
  readonly end: string;
  readonly #of: Request;

  constructor(request: Request, proc: string) {
    const { ttlMs, graceMs, reservedFences, queue, label } = request;
    const times = pad(Math.ceil(ttlMs * 1_000), 12) + pad(Math.ceil((ttlMs + graceMs) * 1_000), 13);
    const life = lifeOf(ttlMs + graceMs).padStart(10, "0");
    this.#of = request;
    this.start = `a${queue ? "1" : "0"}${times}${life}${pad(reservedFences, 12)}${PLAIN}`;
    this.end = ` ${proc} ${labelText(label)} `;
  }

  fits({ ttlMs, graceMs, reservedFences, queue, label }: Request): boolean {
    const of = this.#of;
    return (
      of.ttlMs === ttlMs &&
      of.graceMs === graceMs &&
      of.reservedFences === reservedFences &&
      of.queue === queue &&
      of.label === label
    );
  }
}

/** Its request may have ended while it waited to be sent. */
function isWanted({ open, attempted }: Job): boolean {
  if (open?.isEnded !== true) return true;
  attempted?.(null, { ended: true });
  return false;
}

function fail(jobs: readonly Job[], error: unknown): void {
  for (const { request, attempted, released } of jobs) {
    const named = redisError(error, DOING["fast-path"], request.keys[0]);
    attempted?.(named, null);
    released?.(named, null);
  }
}

function pad(number: number, digits: number): string {
  return String(number).padStart(digits, "0");
}
