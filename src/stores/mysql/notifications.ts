// How this opened store learns that one of its waiters was called or one of its holders revoked. The server
// only ends the wait of the wake-up session; what it was for is then read from the tables.

import type { Busy, LossReason, Request } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import type { StatementCall } from "./client/connection.ts";
import type { Pool } from "./client/pool.ts";
import { type SqlConnection, textOf } from "./client/port.ts";
import { sql } from "./sql.ts";
import { BLOCK, terminate, WakeupSession } from "./wakeup-session.ts";

type TellLoss = (id: string, reason: LossReason, detail?: string) => void;

const UNBOUNDED: StatementCall = { signal: NEVER_ABORTED, sleep: () => Promise.resolve() };

/** After its first "busy" core subscribes and attempts again at once. Later attempts go to the server. */
const SECOND_ATTEMPT = 2;
const ANSWERED_WITHIN_MS = 100;

/** The first answer to a waiter that nobody has called since. */
interface FirstBusy {
  readonly busy: Busy;
  readonly atMs: number;
}

export class Notifications {
  readonly #pool: Pool;
  readonly #system: System;
  readonly #store: string;
  readonly #token: string;
  readonly #session: WakeupSession;
  readonly #wakes = new Map<string, () => void>();
  readonly #firstBusy = new Map<string, FirstBusy>();
  #tellLoss: TellLoss | null = null;
  /** When the last call was made that was read. */
  #readUs = 0;

  /** `store`: as in the tables. It begins with `token`. */
  constructor(pool: Pool, system: System, store: string, token: string) {
    this.#pool = pool;
    this.#system = system;
    this.#store = store;
    this.#token = token;
    this.#session = new WakeupSession(token, {
      connect: () => pool.connect(),
      block: (name) => pool.run(BLOCK, [name], UNBOUNDED),
      waitStatement: () => [sql["notification_wait"], [store, this.#readUs, store]],
      onWake: (session) => this.#read(session),
      // Every waiter attempts at once, so that the server knows that it cannot be woken.
      onEnd: () => this.#wakeAll(),
    });
    pool.onSilence = () => this.#session.drop();
  }

  get isListening(): boolean {
    return this.#session.isListening;
  }

  /** Resolves when this store can be woken, or cannot be. */
  start(): Promise<void> {
    return this.#session.start();
  }

  add(id: string, wake: () => void): () => void {
    this.#wakes.set(id, wake);
    return () => void this.#wakes.delete(id);
  }

  /** A waiter was told for the first time that its key is busy, and this store could be woken all the while. */
  noteBusy({ id }: Request, busy: Busy): void {
    this.#firstBusy.set(id, { busy, atMs: this.#system.monoMs() });
  }

  /**
   * The same answer once more, for the attempt that follows a subscription at once: had the waiter been called
   * in between, this store would have been woken. null: the server has to be asked.
   */
  sameBusy({ id, seq }: Request): Busy | null {
    const first = this.#firstBusy.get(id);
    if (first === undefined) return null;
    this.#firstBusy.delete(id);
    const passedMs = this.#system.monoMs() - first.atMs;
    if (seq !== SECOND_ATTEMPT || !this.#wakes.has(id) || passedMs > ANSWERED_WITHIN_MS) return null;
    return { ...first.busy, againMs: Math.max(1, first.busy.againMs - passedMs) };
  }

  forget({ id }: Request): void {
    this.#firstBusy.delete(id);
  }

  onLoss(tell: TellLoss): () => void {
    this.#tellLoss = tell;
    return () => {
      this.#tellLoss = null;
    };
  }

  /** `last` follows when nothing is left to be done at the server, or it cannot be done. */
  close(last: () => void): void {
    this.#wakes.clear();
    this.#firstBusy.clear();
    this.#tellLoss = null;
    this.#session.close();
    terminate(this.#pool, this.#token, UNBOUNDED).then(last, last);
  }

  async #read(session: SqlConnection): Promise<void> {
    const { rows } = await session.run(sql["notification_read"], [this.#store, this.#store]);
    let latestUs = 0;
    for (const row of rows) {
      const [id, reason] = [textOf(row["id"]), row["reason"]];
      this.#firstBusy.delete(id);
      if (reason === null) this.#wakes.get(id)?.();
      else this.#tellLoss?.(id, "revoked", textOf(reason));
      latestUs = Math.max(latestUs, Number(row["called_us"]));
    }
    if (latestUs > 0) this.#readUs = latestUs;
    if (rows.some((row) => row["reason"] !== null))
      await session.run(sql["notification_forget"], [this.#store]);
  }

  #wakeAll(): void {
    this.#firstBusy.clear();
    for (const wake of [...this.#wakes.values()]) wake();
  }
}
