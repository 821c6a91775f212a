// Runs scripts whose writes replicas must acknowledge. The scripts of one moment and one WAIT go on the same
// connection, one behind the other: WAIT on another connection counts replicas that never saw the write.
// Scripts that arrive while a WAIT is under way share the next one.

import type { Io } from "../../../core/store.ts";
import type { Connection } from "../topology/connection.ts";
import type { GetConnection } from "../topology/dedicated-connection.ts";
import { type Reply, type Script, textOf } from "../client/port.ts";

/** Of the timeout of a call: a script that arrives just after a WAIT has begun must fit in too. */
const WAIT_SHARE = 1 / 3;
const LONGEST_WAIT_MS = 500;
const LARGEST_BATCH = 100;

export interface Acked {
  readonly reply: Reply;
  readonly acks: Acks;
}

/** How many replicas have the write, and how long they were given. */
export interface Acks {
  readonly count: number;
  readonly withinMs: number;
}

/** null when enough have it, else why not. */
export function tooFew({ count, withinMs }: Acks, wanted: number): string | null {
  if (count >= wanted) return null;
  return `${count} of the ${wanted} replicas that are asked for acknowledged it within ${withinMs} ms`;
}

/** How long replicas are given by calls with so much time. */
export function waitMs(timeoutsMs: readonly number[]): number {
  // 0 would be for ever.
  return Math.max(1, Math.floor(Math.min(LONGEST_WAIT_MS, Math.min(...timeoutsMs) * WAIT_SHARE)));
}

interface Job {
  readonly script: Script;
  readonly rest: readonly string[];
  readonly io: Io;
  resolve(answer: Acked): void;
  reject(error: unknown): void;
}

export class ReplicaAck {
  readonly #connection: GetConnection;
  readonly #replicas: number;
  readonly #jobs: Job[] = [];
  #working = false;

  constructor(connection: GetConnection, replicas: number) {
    this.#connection = connection;
    this.#replicas = replicas;
  }

  run(script: Script, keys: readonly string[], args: readonly string[], io: Io): Promise<Acked> {
    return new Promise((resolve, reject) => {
      this.#jobs.push({ script, rest: [String(keys.length), ...keys, ...args], io, resolve, reject });
      if (!this.#working) void this.#work();
    });
  }

  async #work(): Promise<void> {
    this.#working = true;
    while (this.#jobs.length > 0) await this.#send(this.#jobs.splice(0, LARGEST_BATCH));
    this.#working = false;
  }

  async #send(jobs: readonly Job[]): Promise<void> {
    let connection: Connection | null = null;
    const close = (): void => connection?.close();
    try {
      connection = await this.#connection((jobs[0] as Job).io);
      // A caller that has stopped listening must not be granted anything.
      const live = jobs.filter(({ io }) => !io.signal.aborted);
      for (const job of jobs)
        if (!live.includes(job)) job.reject(new Error("the caller has stopped waiting"));
      // A connection that does not answer in time is closed, so that the next call gets a new one.
      for (const { io } of live) io.signal.addEventListener("abort", close);
      const unknown = await this.#ask(connection, live, ({ script }) => ["EVALSHA", script.sha]);
      await this.#ask(connection, unknown, ({ script }) => ["EVAL", script.text]);
      for (const { io } of live) io.signal.removeEventListener("abort", close);
    } catch (error) {
      for (const job of jobs) job.reject(error);
    }
  }

  /** Resolves with the jobs whose script the server does not know. */
  async #ask(connection: Connection, jobs: readonly Job[], call: (job: Job) => string[]): Promise<Job[]> {
    if (jobs.length === 0) return [];
    const withinMs = waitMs(jobs.map(({ io }) => io.timeoutMs));
    const asked = jobs.map((job) => connection.send([...call(job), ...job.rest]));
    const waited = connection.send(["WAIT", String(this.#replicas), String(withinMs)]);
    const [acks, ...replies] = await Promise.allSettled([waited, ...asked]);
    return jobs.filter((job, at) => {
      const reply = replies[at] as PromiseSettledResult<Reply>;
      if (reply.status === "rejected") {
        if (String(reply.reason).includes("NOSCRIPT")) return true;
        job.reject(reply.reason);
      } else if (acks.status === "rejected") {
        job.reject(acks.reason);
      } else {
        job.resolve({ reply: reply.value, acks: { count: Number(textOf(acks.value)), withinMs } });
      }
      return false;
    });
  }
}
