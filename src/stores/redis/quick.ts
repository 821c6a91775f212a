// Plain locks that nobody waits for, taken and released by one small script, and those of one turn of the event loop together: most
// of what a lock costs is the call, not the lock. The script leaves alone whatever is not that simple; see scripts/quick.lua.

import type { Io, Request } from "../../core/store.ts";
import { listOf, type RedisPort, type Reply, runScript, textOf } from "./port.ts";
import { scripts } from "./scripts.generated.ts";

/** More would keep the server from other work for too long. */
const LARGEST_BATCH = 16;
const KEEP_FENCE_MS = 3_600_000;
const MOST_TURNS = 1e12;
const LONGEST_US = 1e13;
const ID_LENGTH = 32;

interface Job {
  readonly name: string;
  readonly item: string;
  readonly io: Io;
  resolve(answer: string): void;
  reject(error: unknown): void;
}

export class Quick {
  readonly #port: RedisPort;
  readonly #proc: string;
  #jobs: Job[] = [];
  /** Batches that are with the server. */
  #away = 0;
  /** Batches whose answers are there and were not told yet; null while none is held back. */
  #arrived: (() => void)[] | null = null;
  /** What the last request had beside its id and turn: most have the same. */
  #shape: { readonly of: Request; readonly text: string } | null = null;

  constructor(port: RedisPort, proc: string) {
    this.#port = port;
    this.#proc = proc;
  }

  /** The fence, or "" where it is not that simple. */
  take(name: string, request: Request, turn: number, io: Io): Promise<string> {
    return this.#ask(name, `a${request.id}${pad(turn, 12)}${this.#shapeOf(request)}`, io);
  }

  /** "1", or "" where it is not that simple. `used`: the last fence that was used. `open`: the oldest open turn. */
  release(name: string, request: Request, turn: number, used: string, open: number, io: Io): Promise<string> {
    return this.#ask(name, `e${request.id}${pad(turn, 12)}${used.padStart(16, "0")}${pad(open, 12)}`, io);
  }

  #ask(name: string, item: string, io: Io): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#jobs.push({ name, item, io, resolve, reject });
      // At the end of this turn of the loop, when everybody who goes on in it has asked.
      if (this.#jobs.length === 1) process.nextTick(() => this.#flush());
    });
  }

  #flush(): void {
    const jobs = this.#jobs;
    this.#jobs = [];
    // Where there are several nodes each goes its own way.
    const size = this.#port.slotOf === undefined ? LARGEST_BATCH : 1;
    for (let at = 0; at < jobs.length; at += size) void this.#send(jobs.slice(at, at + size));
  }

  async #send(jobs: readonly Job[]): Promise<void> {
    const { io } = jobs[0] as Job;
    const names = jobs.map(({ name }) => name);
    const args = [this.#proc, ...jobs.map(({ item }) => item)];
    this.#away += 1;
    try {
      const reply = await runScript(this.#port, scripts.quick, names, args, io);
      this.#away -= 1;
      this.#tell(() => answer(jobs, reply), io);
    } catch (error) {
      this.#away -= 1;
      for (const job of jobs) job.reject(error);
    }
  }

  /**
   * A server answers all that it has read at once. Told at once, everybody would ask anew in the same moment, and client and server would
   * wait for each other in turn. One batch per turn of the loop keeps both at work.
   */
  #tell(batch: () => void, io: Io): void {
    if (this.#arrived !== null) {
      this.#arrived.push(batch);
      return;
    }
    batch();
    if (this.#away > 0) void this.#tellOthers(io);
  }

  async #tellOthers(io: Io): Promise<void> {
    const arrived: (() => void)[] = [];
    this.#arrived = arrived;
    for (;;) {
      await io.sleep(0);
      const batch = arrived.shift();
      if (batch === undefined) break;
      batch();
    }
    this.#arrived = null;
  }

  #shapeOf(request: Request): string {
    const last = this.#shape;
    if (last !== null && sameShape(last.of, request)) return last.text;
    const { ttlMs, graceMs, fenceRoom, label, actor } = request;
    const life = String(Math.ceil(ttlMs + graceMs) + KEEP_FENCE_MS);
    const numbers = pad(fenceRoom, 12) + pad(holdUs(request), 13) + life.length + life.padEnd(10);
    const text = `${numbers}${pad(Buffer.byteLength(label), 4)}${label}${actor}`;
    this.#shape = { of: request, text };
    return text;
  }
}

function answer(jobs: readonly Job[], reply: Reply): void {
  const answers = listOf(reply);
  for (let at = 0; at < jobs.length; at += 1) (jobs[at] as Job).resolve(textOf(answers[at]));
}

/** Whether the columns of the script can hold it. */
export function isSimple(request: Request, turn: number): boolean {
  const { keys, id, mode, limit, permits, keepMs } = request;
  const plain = keys.length === 1 && mode === "exclusive" && limit === 1 && permits === 1 && keepMs === 0;
  return plain && id.length === ID_LENGTH && turn < MOST_TURNS && holdUs(request) < LONGEST_US;
}

function sameShape(a: Request, b: Request): boolean {
  const times = a.ttlMs === b.ttlMs && a.graceMs === b.graceMs && a.fenceRoom === b.fenceRoom;
  return times && a.label === b.label && a.actor === b.actor;
}

function holdUs({ ttlMs, graceMs }: Request): number {
  return Math.ceil((ttlMs + graceMs) * 1_000);
}

function pad(number: number, digits: number): string {
  return String(number).padStart(digits, "0");
}
