// A doorbell, because MySQL has no notifications: each opened store keeps a session asleep on the server, under a named lock
// that others can find it by, and whoever has news for it cuts its sleep with KILL QUERY. A ring may be missed between two
// sleeps; it only saves time.

import type { Patience } from "./link.ts";
import type { Answer, SqlConnection, Value } from "./port.ts";
import { nameOf } from "./row-session.ts";

/** The server lets go of a sleeper whose client has vanished without a word after so long. */
const SLEEP_S = 20;

/** Whatever runs a statement that stands alone. */
export interface Runner {
  run(sql: string, values: readonly Value[], io: Patience): Promise<Answer>;
}

export class Bell {
  readonly #connect: () => Promise<SqlConnection>;
  readonly #proc: string;
  readonly #rung: () => void;
  #connection: SqlConnection | null = null;
  #state: "down" | "up" | "closed" = "down";
  #rising: Promise<void> | null = null;

  constructor(connect: () => Promise<SqlConnection>, proc: string, rung: () => void) {
    this.#connect = connect;
    this.#proc = proc;
    this.#rung = rung;
  }

  /** Whether somebody could ring at the moment. */
  get hung(): boolean {
    return this.#state === "up";
  }

  /** Puts it up if it is not. Called whenever the store is used: there is no timer to do it. Resolves when it is up or cannot be. */
  up(): Promise<void> {
    if (this.#state === "closed") return Promise.resolve();
    this.#rising ??= new Promise((resolve) => {
      const down = (): void => {
        if (this.#state !== "closed") this.#state = "down";
        this.#connection?.destroy();
        this.#connection = null;
        this.#rising = null;
        resolve();
      };
      this.#listen(resolve).then(down, down);
    });
    return this.#rising;
  }

  close(): void {
    this.#state = "closed";
    this.#connection?.destroy();
  }

  async #listen(ready: () => void): Promise<void> {
    const connection = await this.#connect();
    this.#connection = connection;
    if (this.#closed) return connection.destroy();
    await connection.run("SELECT GET_LOCK(?, 0) AS got", [nameOf(this.#proc)]);
    if (this.#closed) return connection.destroy();
    this.#state = "up";
    ready();
    // What happened before anybody could ring.
    this.#rung();
    while (!this.#closed && connection.alive) {
      const woken = await connection.run(`SELECT SLEEP(${SLEEP_S}) AS woken`).then(
        // MySQL answers 1 to a sleep that was cut, MariaDB an error.
        ({ rows }) => Number(rows[0]?.["woken"]) === 1,
        (error: unknown) => {
          if (!connection.alive) throw error;
          return true;
        },
      );
      if (woken && !this.#closed) this.#rung();
    }
  }

  get #closed(): boolean {
    return this.#state === "closed";
  }
}

/** Rings at an opened store, if it can be found. */
export async function ring(link: Runner, proc: string, io: Patience): Promise<void> {
  const id = await sessionOf(link, proc, io);
  if (id !== null) await link.run(`KILL QUERY ${id}`, [], io).catch(() => {});
}

/** Ends the session of a bell at the server, which does not see at once that a sleeper's client has gone. */
export async function takeDown(link: Runner, proc: string, io: Patience): Promise<void> {
  const id = await sessionOf(link, proc, io);
  if (id !== null) await link.run(`KILL ${id}`, [], io);
}

/** The number of the session that has this token, or null when it has ended. */
export async function sessionOf(link: Runner, token: string, io: Patience): Promise<number | null> {
  const { rows } = await link.run("SELECT IS_USED_LOCK(?) AS id", [nameOf(token)], io);
  const id = rows[0]?.["id"];
  return id === null || id === undefined ? null : Number(id);
}
