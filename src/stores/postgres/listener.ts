// LISTEN on one connection per opened store, for all that it waits for and holds. Nothing depends on it: heartbeats find a
// grant, renewals a revocation. A connection that was lost is opened again on the next occasion, not more than once a second.

import type { System } from "../../core/system.ts";
import { destroy, forEver, type OwnClient, type PgPort } from "./port.ts";
import { StatementQueue } from "./statement-queue.ts";

const AGAIN_MS = 1_000;
const PROBE = "probe";

interface Notice {
  readonly channel: string;
  readonly payload?: string;
}

export class Listener {
  readonly #port: PgPort;
  readonly #system: System;
  #connecting: Promise<void> | null = null;
  #client: OwnClient | null = null;
  #statements = new StatementQueue();
  #triedMs = Number.NEGATIVE_INFINITY;
  #closed = false;
  /** Whether anything has ever been heard: behind a transaction pooler LISTEN succeeds and nothing comes. */
  #heard = false;
  #failure: Error | null = null;

  constructor(port: PgPort, system: System) {
    this.#port = port;
    this.#system = system;
    port.onSilence = () => this.#drop();
  }

  /** Why pushes do not arrive, or null. */
  get failure(): Error | null {
    if (this.#failure !== null) return this.#failure;
    return this.#heard
      ? null
      : new Error("LISTEN was taken, but nothing arrives, as behind a transaction pooler");
  }

  /** Resolves when pushes can arrive, or cannot be had. */
  async start(channel: string, hear: (words: string) => void): Promise<void> {
    if (this.#closed || this.#client !== null) return;
    if (this.#connecting === null && this.#system.monoMs() - this.#triedMs < AGAIN_MS) return;
    this.#connecting ??= this.#connect(channel, hear).finally(() => {
      this.#connecting = null;
    });
    await this.#connecting;
  }

  get down(): boolean {
    return this.#client === null && !this.#closed;
  }

  /** One statement beside the pool: on the session that listens, or on one of its own where that is gone. */
  async query(text: string, values: readonly unknown[]): Promise<void> {
    const listening = this.#client;
    if (listening !== null) return void (await this.#statements.run(() => listening.query({ text, values })));
    const client = await this.#port.connect();
    try {
      await client.query({ text, values });
    } finally {
      destroy(client);
    }
  }

  close(): void {
    this.#closed = true;
    this.#drop();
  }

  #drop(): void {
    if (this.#client !== null) destroy(this.#client);
    this.#client = null;
  }

  async #connect(channel: string, hear: (words: string) => void): Promise<void> {
    this.#triedMs = this.#system.monoMs();
    try {
      const client = await this.#port.connect();
      const gone = (): void => {
        if (this.#client === client) this.#client = null;
      };
      client.on("error", gone);
      client.on("end", gone);
      client.on("notification", ((notice: Notice) => {
        this.#heard = true;
        if (notice.channel === channel && notice.payload !== PROBE) hear(notice.payload ?? "");
      }) as (...args: readonly never[]) => void);
      if (this.#closed) return destroy(client);
      await client.query({ text: `LISTEN "${channel}"` });
      this.#client = client;
      const statements = new StatementQueue();
      this.#statements = statements;
      this.#failure = null;
      await this.#port.query("SELECT pg_notify($1, $2)", [channel, PROBE], forEver());
      // A session hears what was committed before a statement of its own at the latest with the end of that statement.
      await statements.run(() => client.query({ text: "SELECT 1" }));
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
    }
  }
}
