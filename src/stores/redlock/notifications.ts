// One subscription per node, for everything that this store waits for and holds. Every node that reserves a
// key for a waiter notifies the process of that waiter. The waiter attempts again when a majority has
// notified it, because its attempt cannot succeed before. Nothing depends on notifications: waiters find a
// free key by polling, and renewals find a revocation.

import type { LossReason } from "../../core/store.ts";
import type { Node } from "./node.ts";
import { majorityOf } from "./quorum-call.ts";

type ReportLoss = (id: string, reason: LossReason, detail?: string) => void;

interface Waiter {
  readonly wake: () => void;
  /** The nodes that have notified it since its last attempt. */
  readonly notifiedBy: Set<Node>;
}

export class Notifications {
  readonly #nodes: readonly Node[];
  readonly #channel: string;
  readonly #waiters = new Map<string, Waiter>();
  readonly #subscriptions = new Map<Node, Promise<() => Promise<void>>>();
  readonly #unsubscribed = new Map<Node, Error>();
  #reportLoss: ReportLoss | null = null;
  #closed = false;

  constructor(nodes: readonly Node[], channel: string) {
    this.#nodes = nodes;
    this.#channel = channel;
  }

  /** The nodes that this client cannot subscribe to, with their reasons. */
  get unsubscribed(): ReadonlyMap<Node, Error> {
    return this.#unsubscribed;
  }

  /** Resolves when a majority is subscribed to, or nothing more is to be expected. */
  start(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    return new Promise((resolve) => {
      let [up, done] = [0, 0];
      const settled = (heard: boolean): void => {
        up += heard ? 1 : 0;
        done += 1;
        if (up >= majorityOf(this.#nodes.length) || done === this.#nodes.length) resolve();
      };
      for (const node of this.#nodes) {
        this.#subscribeTo(node).then(
          () => settled(true),
          () => settled(false),
        );
      }
    });
  }

  async subscribe(id: string, wake: () => void): Promise<() => void> {
    this.#waiters.set(id, { wake, notifiedBy: new Set() });
    await this.start();
    return () => this.#waiters.delete(id);
  }

  /** The request attempts again: earlier notifications are old. */
  attempted(id: string): void {
    this.#waiters.get(id)?.notifiedBy.clear();
  }

  onLoss(report: ReportLoss): () => void {
    this.#reportLoss = report;
    return () => {
      this.#reportLoss = null;
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#waiters.clear();
    this.#reportLoss = null;
    // A subscription that is not there yet is closed with its node.
    for (const listening of this.#subscriptions.values()) listening.then((stop) => stop()).catch(() => {});
    await Promise.resolve();
  }

  #subscribeTo(node: Node): Promise<unknown> {
    const known = this.#subscriptions.get(node);
    if (known !== undefined) return known;
    const listening = node
      .connected()
      .then((port) => port.subscribe(this.#channel, (message) => this.#receive(node, message)));
    this.#subscriptions.set(node, listening);
    listening.then(
      () => this.#unsubscribed.delete(node),
      (error: unknown) => {
        this.#subscriptions.delete(node);
        this.#unsubscribed.set(node, error instanceof Error ? error : new Error(String(error)));
      },
    );
    return listening;
  }

  /** Anybody may publish anything: ignore what is not ours. */
  #receive(node: Node, message: string): void {
    const [kind, id = "", ...words] = message.split(" ");
    if (kind === "revoked") this.#reportLoss?.(id, "revoked", words.join(" "));
    const waiter = kind === "wake" ? this.#waiters.get(id) : undefined;
    if (waiter === undefined) return;
    waiter.notifiedBy.add(node);
    if (waiter.notifiedBy.size < majorityOf(this.#nodes.length)) return;
    waiter.notifiedBy.clear();
    waiter.wake();
  }
}
