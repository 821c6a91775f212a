// One subscription per opened store, for everything that it waits for and holds. It survives reconnects, but
// messages that are published meanwhile are lost. Nothing depends on them: heartbeats find a free key, and
// renewals find a revocation.

import type { LossReason } from "../../core/store.ts";
import type { RedisPort } from "./client/port.ts";
import { readPush } from "./commands/script-replies.ts";

type ReportLoss = (id: string, reason: LossReason, detail?: string) => void;

export class Notifications {
  readonly #port: RedisPort;
  readonly #channel: string;
  readonly #wakes = new Map<string, () => void>();
  #reportLoss: ReportLoss | null = null;
  #subscribing: Promise<() => Promise<void>> | null = null;
  #closed = false;
  /** Why there is no subscription. */
  failure: Error | null = null;

  constructor(port: RedisPort, channel: string) {
    this.#port = port;
    this.#channel = channel;
  }

  /**
   * Resolves when notifications can arrive, or when the subscription failed: then `failure` says why, and the
   * next call tries again.
   */
  async start(): Promise<void> {
    try {
      await this.#subscribe();
      this.failure = null;
    } catch (error) {
      this.failure = error instanceof Error ? error : new Error(String(error));
    }
  }

  /** Resolves when notifications for this id can arrive. */
  async wake(id: string, wake: () => void): Promise<() => void> {
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

  async close(): Promise<void> {
    this.#closed = true;
    this.#wakes.clear();
    this.#reportLoss = null;
    const subscribing = this.#subscribing;
    // A subscription that failed needs no end.
    await subscribing?.then((stop) => stop()).catch(() => {});
  }

  #subscribe(): Promise<unknown> {
    if (this.#closed) return Promise.resolve();
    this.#subscribing ??= this.#port
      .subscribe(this.#channel, (message) => this.#receive(message))
      .catch((error: unknown) => {
        this.#subscribing = null;
        throw error;
      });
    return this.#subscribing;
  }

  #receive(message: string): void {
    const push = readPush(message);
    if (push === null) return;
    if (push.kind === "revoked") this.#reportLoss?.(push.id, "revoked", push.reason);
    else this.#wakes.get(push.id)?.();
  }
}
