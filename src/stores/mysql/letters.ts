// Pushes in a database that has none: a letter in a table, and a ring at the bell of the opened store that it is for.

import type { Patience as Waiting, Push } from "../shared/table.ts";
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import { Bell, KEEP, sessionOf, takeDown } from "./bell.ts";
import type { Patience } from "./link.ts";
import type { Pool } from "./pool.ts";
import { textOf } from "./port.ts";
import { sql } from "./sql.ts";

const NEVER: Patience = { signal: NEVER_ABORTED, sleep: () => Promise.resolve() };

export class Letters {
  readonly #pool: Pool;
  #bell: Bell | null = null;
  #proc = "";
  #sent = 0;
  #hear: (words: string) => void = () => {};

  constructor(pool: Pool) {
    this.#pool = pool;
    pool.onSilence = () => this.#bell?.drop();
  }

  /** Whether letters can be heard of at the moment; null when nobody asked for it. */
  get heard(): boolean | null {
    return this.#bell?.hung ?? null;
  }

  /** Resolves when the bell is up, or cannot be put up. */
  async listen(proc: string, hear: (words: string) => void): Promise<void> {
    this.#hear = hear;
    this.#proc = boxOf(proc);
    this.#bell ??= new Bell(this.#proc, {
      connect: () => this.#pool.connect(),
      keep: (name) => this.#pool.run(KEEP, [name], NEVER),
      pending: "EXISTS (SELECT 1 FROM holdfast_push WHERE proc = ?)",
      rung: () =>
        this.#fetch().then(
          () => true,
          () => false,
        ),
    });
    await this.#bell.up();
  }

  async send(pushes: readonly Push[], patience: Waiting): Promise<void> {
    for (const { proc, words } of pushes) {
      this.#sent += 1;
      const box = boxOf(proc);
      await this.#pool.run(sql["push"], [box, `${this.#proc}-${this.#sent}`, short(words)], patience);
      const id = await sessionOf(this.#pool, box, { ...NEVER, ...patience });
      if (id !== null) await this.#pool.run(`KILL QUERY ${id}`, [], patience);
    }
  }

  /** `last` follows when nothing is left to be done at the server, or it cannot be done. */
  close(last: () => void): void {
    const bell = this.#bell;
    bell?.close();
    if (bell === null) last();
    else takeDown(this.#pool, this.#proc, NEVER).then(last, last);
  }

  async #fetch(): Promise<void> {
    const { dialect } = (await this.#pool.primary(NEVER)).facts;
    const fetching = dialect === "mariadb" ? sql["fetch"] : sql["letters"];
    const { rows } = await this.#pool.run(fetching, [this.#proc], NEVER);
    for (const row of rows) this.#hear(textOf(row["words"]));
    if (dialect === "mariadb") return;
    for (const row of rows) await this.#pool.run(sql["fetched"], [this.#proc, textOf(row["id"])], NEVER);
  }
}

/**
 * A chosen waiter is told to look, not what it was granted: its own look makes the short claim a full lease, which a renewal
 * would have to do otherwise, in as many statements, and until then the lease could not be handed on.
 */
function short(words: string): string {
  const [kind, id] = words.split(" ");
  return kind === "grant" ? `look ${id}` : words;
}

/** The part of an opened store's name that was made by chance. */
function boxOf(proc: string): string {
  return proc.replace(/@.*$/, "");
}
