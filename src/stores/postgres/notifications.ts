// LISTEN on one connection per opened store, for all that it waits for and holds. Nothing depends on it:
// heartbeats find a free key, renewals a revocation. A lost connection is opened again on the next occasion,
// at most once a second.

import type { LossReason } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { type Connections, destroy, newCall, type OwnClient } from "./client/connections.ts";
import { StatementQueue } from "./client/statement-queue.ts";

type ReportLoss = (id: string, reason: LossReason, detail?: string) => void;

interface Notification {
  readonly channel: string;
  readonly payload?: string;
}

const RECONNECT_MS = 1_000;
const PROBE = "probe";

export class Notifications {
  readonly #connections: Connections;
  readonly #system: System;
  readonly #channel: string;
  readonly #wakes = new Map<string, () => void>();
  #reportLoss: ReportLoss | null = null;
  #connecting: Promise<void> | null = null;
  #client: OwnClient | null = null;
  #statements = new StatementQueue();
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;
  /** Whether anything has ever arrived: behind a transaction pooler LISTEN succeeds and nothing comes. */
  #hasHeard = false;
  #failure: Error | null = null;

  constructor(connections: Connections, system: System, channel: string) {
    this.#connections = connections;
    this.#system = system;
    this.#channel = channel;
    connections.onSilence = () => this.#drop();
  }

  /** Why notifications do not arrive, or null. */
  get failure(): Error | null {
    if (this.#failure !== null) return this.#failure;
    return this.#hasHeard
      ? null
      : new Error("LISTEN was taken, but nothing arrives, as behind a transaction pooler");
  }

  get isListening(): boolean {
    return this.#client !== null && this.#hasHeard;
  }

  /** Resolves when notifications can arrive, or cannot be had. */
  async start(): Promise<void> {
    if (this.#isClosed || this.#client !== null) return;
    if (this.#connecting === null && this.#system.monoMs() - this.#triedAtMs < RECONNECT_MS) return;
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    await this.#connecting;
  }

  /** Resolves when notifications for this id can arrive. */
  async subscribe(id: string, wake: () => void): Promise<() => void> {
    this.#wakes.set(id, wake);
    await this.start();
    return () => this.#wakes.delete(id);
  }

  onLoss(report: ReportLoss): () => void {
    this.#reportLoss = report;
    return () => {
      this.#reportLoss = null;
    };
  }

  /** One statement beside the pool: on the session that listens, or on one of its own where that is gone. */
  async query(text: string, values: readonly unknown[]): Promise<void> {
    const listening = this.#client;
    if (listening !== null) return void (await this.#statements.run(() => listening.query({ text, values })));
    const client = await this.#connections.connect();
    try {
      await client.query({ text, values });
    } finally {
      destroy(client);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#wakes.clear();
    this.#reportLoss = null;
    this.#drop();
  }

  #drop(): void {
    if (this.#client !== null) destroy(this.#client);
    this.#client = null;
  }

  async #connect(): Promise<void> {
    this.#triedAtMs = this.#system.monoMs();
    try {
      const client = await this.#connections.connect();
      const gone = (): void => {
        if (this.#client === client) this.#client = null;
      };
      client.on("error", gone);
      client.on("end", gone);
      client.on("notification", ((notification: Notification) => {
        this.#hasHeard = true;
        if (notification.channel === this.#channel) this.#hear(notification.payload ?? "");
      }) as (...args: never[]) => void);
      if (this.#isClosed) return destroy(client);
      await client.query({ text: `LISTEN "${this.#channel}"` });
      this.#client = client;
      const statements = new StatementQueue();
      this.#statements = statements;
      this.#failure = null;
      await this.#connections.query("SELECT pg_notify($1, $2)", [this.#channel, PROBE], newCall());
      // A session gets what was committed before a statement of its own at the latest with the end of that
      // statement.
      await statements.run(() => client.query({ text: "SELECT 1" }));
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
    }
  }

  /** Ignores everything else: anybody may send anything on a channel. */
  #hear(text: string): void {
    const [kind, id, ...words] = text.split(" ");
    if (id === undefined) return;
    if (kind === "turn") this.#wakes.get(id)?.();
    if (kind === "revoked") this.#reportLoss?.(id, "revoked", words.join(" "));
  }
}
