// How this opened store learns that one of its waiters was called or one of its holders revoked. The server
// only ends the wait of the wake-up session; what it was for is then read from the tables.

import type { LossReason } from "../../core/store.ts";
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import type { StatementCall } from "./client/connection.ts";
import type { Pool } from "./client/pool.ts";
import { type SqlConnection, textOf } from "./client/port.ts";
import { sql } from "./sql.ts";
import { BLOCK, terminate, WakeupSession } from "./wakeup-session.ts";

type TellLoss = (id: string, reason: LossReason, detail?: string) => void;

const UNBOUNDED: StatementCall = { signal: NEVER_ABORTED, sleep: () => Promise.resolve() };

export class Notifications {
  readonly #pool: Pool;
  readonly #store: string;
  readonly #token: string;
  readonly #session: WakeupSession;
  readonly #wakes = new Map<string, () => void>();
  #tellLoss: TellLoss | null = null;
  /** When the last call was made that was read. */
  #readUs = 0;

  /** `store`: as in the tables. It begins with `token`. */
  constructor(pool: Pool, store: string, token: string) {
    this.#pool = pool;
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

  onLoss(tell: TellLoss): () => void {
    this.#tellLoss = tell;
    return () => {
      this.#tellLoss = null;
    };
  }

  /** `last` follows when nothing is left to be done at the server, or it cannot be done. */
  close(last: () => void): void {
    this.#wakes.clear();
    this.#tellLoss = null;
    this.#session.close();
    terminate(this.#pool, this.#token, UNBOUNDED).then(last, last);
  }

  async #read(session: SqlConnection): Promise<void> {
    const { rows } = await session.run(sql["notification_read"], [this.#store, this.#store]);
    let latestUs = 0;
    for (const row of rows) {
      const [id, reason] = [textOf(row["id"]), row["reason"]];
      if (reason === null) this.#wakes.get(id)?.();
      else {
        this.#tellLoss?.(id, "revoked", textOf(reason));
        await session.run(sql["notification_forget"], [this.#store, id]);
      }
      latestUs = Math.max(latestUs, Number(row["called_us"]));
    }
    if (latestUs > 0) this.#readUs = latestUs;
  }

  #wakeAll(): void {
    for (const wake of [...this.#wakes.values()]) wake();
  }
}
