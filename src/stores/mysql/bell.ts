// A doorbell, because MySQL has no notifications: each opened store keeps a session waiting on the server, under a named lock
// that others can find it by, and whoever has news for it cuts that wait with KILL QUERY. Rings only save time.
//
// A KILL QUERY that arrives before the next wait has started on the server cuts nothing. Its notification was
// committed before it, so the statement that waits asks first whether there is one, and does not wait then.
//
// It waits for a second named lock, the hush, which another session of the same store has. SELECT SLEEP would be simpler and must not
// be used: all sleepers of a MariaDB share one mutex, and a KILL that meets it taken keeps every other KILL and every new
// connection of that server waiting for two seconds. A few dozen rings in a second were enough to let nobody in any more.

import type { Patience } from "./link.ts";
import type { Answer, SqlConnection, Value } from "./port.ts";
import { nameOf } from "./row-session.ts";

/** The server lets go of a wait whose client has vanished without a word after so long. */
const WAIT_S = 20;

/** Whatever runs a statement that stands alone. */
export interface Runner {
  run(sql: string, values: readonly Value[], io: Patience): Promise<Answer>;
}

export interface BellDeps {
  /** A session of its own. */
  connect(): Promise<SqlConnection>;
  /** Has any other session of this store take a named lock, and keep it for as long as it lives. */
  keep(name: string): Promise<unknown>;
  /** An SQL condition with the proc as its one value: whether there is a notification to be taken. */
  readonly pending?: string;
  /** With `pending`, false: the notifications could not be taken, so that it is of no use to ask for them. */
  rung(): unknown;
}

export class Bell {
  readonly #deps: BellDeps;
  readonly #proc: string;
  #connection: SqlConnection | null = null;
  #state: "down" | "up" | "closed" = "down";
  #rising: Promise<void> | null = null;

  constructor(proc: string, deps: BellDeps) {
    this.#proc = proc;
    this.#deps = deps;
  }

  /** Whether somebody could ring at the moment. */
  get hung(): boolean {
    return this.#state === "up";
  }

  /** Puts it up if it is not. Called whenever the store is used: there is no timer to do it. Resolves when it is up or cannot be. */
  up(): Promise<void> {
    if (this.#state === "closed") return Promise.resolve();
    if (this.#rising !== null) return this.#rising;
    const rising = new Promise<void>((resolve) => {
      const down = (): void => {
        if (this.#rising === rising) this.drop();
        resolve();
      };
      // Later, because `rising` is not known yet.
      void Promise.resolve()
        .then(() => this.#listen(resolve))
        .then(down, down);
    });
    this.#rising = rising;
    return rising;
  }

  /** The session has ended, or may be half open. The next use of the store makes another one. */
  drop(): void {
    if (this.#state !== "closed") this.#state = "down";
    this.#connection?.destroy();
    this.#connection = null;
    this.#rising = null;
  }

  close(): void {
    this.#state = "closed";
    this.#connection?.destroy();
  }

  async #listen(ready: () => void): Promise<void> {
    const connection = await this.#deps.connect();
    this.#connection = connection;
    if (this.#closed) return connection.destroy();
    // The wait asks for pending notifications in the same statement. Any other level would keep a snapshot
    // for as long as the statement waits, and the server could not purge old rows meanwhile.
    await connection.run("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", []);
    await connection.run("SELECT GET_LOCK(?, 0) AS got", [nameOf(this.#proc)]);
    const hush = hushOf(this.#proc);
    await this.#deps.keep(hush);
    if (this.#closed) return connection.destroy();
    this.#state = "up";
    ready();
    let loose = false;
    let asks = this.#deps.pending !== undefined;
    while (!this.#closed && connection.alive) {
      const pending = asks ? this.#deps.pending : undefined;
      const hearing = hear(connection, hush, pending, this.#proc);
      // What came before anybody could ring, or while nobody was there to hear it.
      if (this.#deps.pending === undefined) this.#deps.rung();
      const heard = await hearing;
      if (this.#closed) return;
      if (heard === "loose") {
        // The session that kept it has ended. If that of another one does not keep us, the two are on different servers.
        if (loose) throw new Error("nobody keeps the bell quiet");
        await connection.run("DO RELEASE_LOCK(?)", [hush]);
        await this.#deps.keep(hush);
      }
      loose = heard === "loose";
      if (this.#deps.pending !== undefined) asks = (await this.#deps.rung()) !== false;
      else if (heard === "ring") this.#deps.rung();
    }
  }

  get #closed(): boolean {
    return this.#state === "closed";
  }
}

/** One wait: it was cut, it was over or there was no need for it, or nobody had the lock. */
async function hear(
  connection: SqlConnection,
  hush: string,
  pending: string | undefined,
  proc: string,
): Promise<"ring" | "nothing" | "loose"> {
  const seconds = pending === undefined ? String(WAIT_S) : `IF(${pending}, 0, ${WAIT_S})`;
  const values = pending === undefined ? [hush] : [hush, proc];
  try {
    const { rows } = await connection.run(`SELECT GET_LOCK(?, ${seconds}) AS hush`, values);
    const got = rows[0]?.["hush"] ?? null;
    // To a wait that was cut a server may answer with an error or with NULL.
    if (got === null) return "ring";
    return Number(got) === 1 ? "loose" : "nothing";
  } catch (error) {
    if (!connection.alive) throw error;
    return "ring";
  }
}

function hushOf(proc: string): string {
  return `${nameOf(proc)}:hush`;
}

/** What `keep` runs. It is no matter whether it gets it or another session of the store has it already. */
export const KEEP = "SELECT GET_LOCK(?, 0) AS kept";

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
