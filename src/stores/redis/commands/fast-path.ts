// Plain locks on one key. The attempts and releases of one turn of the event loop go in one call of
// scripts/fast-path.lua, because most of the cost of a lock is the call. For a contended key the script runs
// the rules in the same call. Keys that readers or permits have touched need a script of their own.

import { isUnsent } from "../../../core/errors.ts";
import type { AttemptAnswer, Request } from "../../../core/store.ts";
import { type CommandsEnv, DOING, lifeOf } from "./commands.ts";
import { redisError } from "../errors.ts";
import type { OpenRequest } from "./open-requests.ts";
import { listOf, type CallContext, type Reply, textOf } from "../client/port.ts";
import { failureIn, labelText, plainGrant, readAttempt } from "./script-replies.ts";
import { scripts } from "../scripts.generated.ts";

/** More would keep the server from other work for too long. */
const LARGEST_BATCH = 32;
const SCRIPT = scripts["fast-path"];

type Settle<T> = (error: unknown, answer: T | null) => void;
type TimedPatience = CallContext & { readonly timeoutMs: number };

/** The scripts for one request each. */
export interface SingleCommands {
  attemptAlone(request: Request, open: OpenRequest, io: TimedPatience): Promise<AttemptAnswer<null>>;
  endAlone(request: Request, used: readonly string[], lateUntilMs: number, io: CallContext): Promise<boolean>;
  /** The server's time at `deadlineMs` of our clock; null while its time is unknown. */
  notAfterIfKnown(key: string, deadlineMs: number): number | null;
  notAfterMs(key: string, deadlineMs: number, io: CallContext): Promise<number>;
  learnTime(key: string, serverMs: number, sentMs: number): void;
}

/** An attempt if it has an open request, else a release. */
interface Job {
  readonly request: Request;
  readonly name: string;
  readonly item: string;
  readonly open: OpenRequest | null;
  readonly used: string;
  readonly io: TimedPatience;
  readonly attempted: Settle<AttemptAnswer<null>> | null;
  readonly released: Settle<boolean> | null;
  /** How often it was sent. */
  tries: number;
}

export class FastPath {
  readonly #env: CommandsEnv;
  readonly #commands: SingleCommands;
  readonly #head: readonly string[];
  readonly #clockKey: readonly string[];
  #jobs: Job[] = [];
  /** The columns of the last request before its id. Most requests have the same. */
  #prefix: { readonly of: Request; readonly text: string } | null = null;
  #label: { readonly of: string; readonly text: string } = { of: "", text: labelText("") };
  readonly #flushSoon = (): void => this.#flush();

  constructor(
    env: CommandsEnv,
    commands: SingleCommands,
    head: readonly string[],
    clockKey: readonly string[],
  ) {
    this.#env = env;
    this.#commands = commands;
    this.#head = head;
    this.#clockKey = clockKey;
  }

  /** Never calls back synchronously. */
  attempt(request: Request, open: OpenRequest, io: TimedPatience, settle: Settle<AttemptAnswer<null>>): void {
    const item = `a${this.#prefixOf(request)}${request.id}${this.#labelOf(request.label)} ${request.actor}`;
    this.#add({
      request,
      name: this.#nameOf(request),
      item,
      open,
      used: "",
      io,
      attempted: settle,
      released: null,
      tries: 0,
    });
  }

  release(request: Request, used: string, io: TimedPatience, settle: Settle<boolean>): void {
    const item = `r${used.padStart(16, "0")}${request.id}`;
    this.#add({
      request,
      name: this.#nameOf(request),
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
    this.#jobs.push(job);
    // At the end of this turn of the loop, when all of its tasks have asked.
    if (this.#jobs.length === 1) process.nextTick(this.#flushSoon);
  }

  #nameOf({ keys }: Request): string {
    return this.#env.names.record(keys[0] as string);
  }

  #flush(): void {
    const jobs = this.#jobs;
    this.#jobs = [];
    // The keys of a Cluster may be on different nodes.
    const size = this.#env.port.slotOf === undefined ? LARGEST_BATCH : 1;
    if (jobs.length <= size) this.#send(jobs);
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
    const notAfterMs = this.#commands.notAfterIfKnown(key, sentMs + timeoutMs);
    if (notAfterMs === null) {
      this.#commands.notAfterMs(key, sentMs + timeoutMs, first.io).then(
        () => this.#send(jobs),
        (error: unknown) => fail(jobs, error),
      );
      return;
    }
    const count = jobs.length;
    const words: string[] = ["EVALSHA", SCRIPT.sha, String(count + this.#clockKey.length)];
    for (const { name } of jobs) words.push(name);
    words.push(...this.#clockKey, ...this.#head, String(notAfterMs));
    for (const job of jobs) {
      job.tries += 1;
      job.open?.sent(notAfterMs);
      words.push(job.item);
    }
    const answered = (reply: Reply): void => this.#answer(jobs, reply, sentMs);
    const failed = (error: unknown): void => this.#fail(jobs, error);
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
    const answers = listOf(reply);
    this.#commands.learnTime(
      (jobs[0] as Job).request.keys[0] as string,
      Number(textOf(answers[0])) / 1_000,
      sentMs,
    );
    for (let at = 0; at < jobs.length; at += 1) {
      const job = jobs[at] as Job;
      const answer = answers[at + 1];
      if (job.open !== null) job.open.unanswered -= 1;
      try {
        if (job.attempted === null) this.#released(job, answer);
        else this.#attempted(job, job.attempted, answer);
      } catch (error) {
        fail([job], error);
      }
    }
  }

  #attempted(job: Job, settle: Settle<AttemptAnswer<null>>, answer: Reply): void {
    const { request } = job;
    if (Array.isArray(answer)) return settle(null, readAttempt(answer, request));
    const text = textOf(answer);
    if (text.length === 16) return settle(null, { granted: plainGrant(text, request) });
    if (text === "late" && job.tries === 1) return this.#add(job);
    const failure = failureIn(text, "fast-path", request.keys[0]);
    if (failure !== null) return settle(failure, null);
    this.#commands.attemptAlone(request, job.open as OpenRequest, job.io).then(
      (said) => settle(null, said),
      (error: unknown) => settle(error, null),
    );
  }

  #released(job: Job, answer: Reply): void {
    const settle = job.released as Settle<boolean>;
    const text = textOf(answer);
    if (text === "1" || text === "0") return settle(null, text === "1");
    const failure = failureIn(text, "fast-path", job.request.keys[0]);
    if (failure !== null) return settle(failure, null);
    this.#commands.endAlone(job.request, [job.used], 0, job.io).then(
      (held) => settle(null, held),
      (error: unknown) => settle(error, null),
    );
  }

  /** Queue, ttl, hold, life and reserved fences: the columns of scripts/fast-path.lua before the id. */
  #prefixOf(request: Request): string {
    const last = this.#prefix;
    if (last !== null && samePrefix(last.of, request)) return last.text;
    const { ttlMs, graceMs, reservedFences, queue } = request;
    const times = pad(Math.ceil(ttlMs * 1_000), 12) + pad(Math.ceil((ttlMs + graceMs) * 1_000), 13);
    const life = lifeOf(ttlMs + graceMs).padStart(10, "0");
    const text = `${queue ? "1" : "0"}${times}${life}${pad(reservedFences, 12)}`;
    this.#prefix = { of: request, text };
    return text;
  }

  #labelOf(label: string): string {
    if (this.#label.of !== label) this.#label = { of: label, text: labelText(label) };
    return this.#label.text;
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

function samePrefix(a: Request, b: Request): boolean {
  return (
    a.ttlMs === b.ttlMs &&
    a.graceMs === b.graceMs &&
    a.reservedFences === b.reservedFences &&
    a.queue === b.queue
  );
}

function pad(number: number, digits: number): string {
  return String(number).padStart(digits, "0");
}
