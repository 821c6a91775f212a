// Read, decide, write, and all of it only if nobody else has written meanwhile: WATCH, MULTI, EXEC on a connection of its own,
// one transaction after the other. Whoever is beaten to it reads again; each time somebody has got on.
//
// 1. WATCH, TIME and GET leave together. A grant counts from the send of the attempt, which is no later than that of TIME.
// 2. The decision is made here, under the server's time as it was read: what has ended since is found by the next step.
// 3. MULTI, SET, PUBLISH, EXEC leave together, and WAIT behind them where replicas must acknowledge.

import { StoreUnavailableError } from "../../core/errors.ts";
import type { Io } from "../../core/store.ts";
import { type Acks, waitMs } from "./acknowledged.ts";
import { isForeign } from "../shared/redis-failure.ts";
import type { OwnConnection } from "./own-connection.ts";
import { listOf, type Reply, type Session, textOf, type Word } from "./port.ts";

export interface Decision<T> {
  readonly answer: T;
  /** What is written; nothing where nothing changes. */
  readonly commands: readonly (readonly Word[])[];
  /** Whether replicas must acknowledge it. */
  readonly wait: boolean;
}

/** `wallUs`: the server's clock. One entry per name, null where there is none. */
export type Decide<T> = (wallUs: number, values: readonly (Buffer | null)[]) => Decision<T>;

export interface Done<T> {
  readonly answer: T;
  readonly acks: Acks | null;
}

export class Transactions {
  readonly #connection: OwnConnection;
  readonly #replicas: number;
  #last: Promise<unknown> = Promise.resolve();

  constructor(connection: OwnConnection, replicas: number) {
    this.#connection = connection;
    this.#replicas = replicas;
  }

  run<T>(names: readonly string[], decide: Decide<T>, io: Io): Promise<Done<T>> {
    const mine = this.#last.then(() => this.#run(names, decide, io));
    this.#last = mine.catch(() => {});
    return mine;
  }

  async #run<T>(names: readonly string[], decide: Decide<T>, io: Io): Promise<Done<T>> {
    const session = await this.#connection.get(io);
    const drop = (): void => session.close();
    io.signal.addEventListener("abort", drop);
    try {
      for (;;) {
        if (io.signal.aborted) throw new StoreUnavailableError("nobody waits for it any more");
        const done = await this.#once(session, names, decide, io);
        if (done !== null) return done;
      }
    } catch (error) {
      // What is watched or queued on it must not meet the next transaction.
      if (!isDamaged(error) || !(await unwatched(session))) session.close();
      throw error;
    } finally {
      io.signal.removeEventListener("abort", drop);
    }
  }

  /** null when somebody else wrote first. */
  async #once<T>(
    session: Session,
    names: readonly string[],
    decide: Decide<T>,
    io: Io,
  ): Promise<Done<T> | null> {
    const [, time, ...values] = await sent(session, [
      ["WATCH", ...names],
      ["TIME"],
      ...names.map((name) => ["GET", name]),
    ]);
    const [seconds, us] = listOf(time).map((part) => Number(textOf(part)));
    const { answer, commands, wait } = decide(
      (seconds as number) * 1_000_000 + (us as number),
      values.map((value) => (value === null || value === undefined ? null : bytesOf(value))),
    );
    if (commands.length === 0) {
      await session.send(["UNWATCH"]);
      return { answer, acks: null };
    }
    const withinMs = waitMs([io.timeoutMs]);
    const waiting = wait && this.#replicas > 0;
    const replies = await sent(session, [
      ["MULTI"],
      ...commands,
      ["EXEC"],
      ...(waiting ? [["WAIT", String(this.#replicas), String(withinMs)]] : []),
    ]);
    const written = replies[commands.length + 1];
    if (written === null) return null;
    for (const reply of listOf(written)) if (reply instanceof Error) throw reply;
    return { answer, acks: waiting ? { count: Number(textOf(replies.at(-1))), withinMs } : null };
  }
}

/** Nothing was written: the record of this transaction cannot be read. */
function isDamaged(error: unknown): boolean {
  return error instanceof Error && isForeign(error.message);
}

/** Whether the connection can be used by the next transaction. */
function unwatched(session: Session): Promise<boolean> {
  return session.send(["UNWATCH"]).then(
    () => true,
    () => false,
  );
}

/** One behind the other in one go. Rejects with the first that failed, when all are answered. */
async function sent(session: Session, commands: readonly (readonly Word[])[]): Promise<Reply[]> {
  const settled = await Promise.allSettled(commands.map((words) => session.send(words)));
  const failed = settled.find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  return settled.map((one) => (one as PromiseFulfilledResult<Reply>).value);
}

function bytesOf(reply: Reply): Buffer {
  return reply instanceof Uint8Array ? Buffer.from(reply) : Buffer.from(textOf(reply));
}
