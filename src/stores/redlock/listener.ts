// One subscription per node, for all that this store waits for and holds. A release is published by every node that keeps the key
// for a waiter of ours; the waiter is woken when a majority has said so, for only then its attempt can succeed. Nothing depends
// on it: polls find a free key, renewals a revocation.

import type { LossReason } from "../../core/store.ts";
import type { Node } from "./node.ts";
import { majorityOf } from "./quorum.ts";

type TellLoss = (id: string, reason: LossReason, detail?: string) => void;

interface Waiter {
  readonly wake: () => void;
  /** The nodes that have said so since the last attempt. */
  readonly said: Set<Node>;
}

export class Listener {
  readonly #nodes: readonly Node[];
  readonly #channel: string;
  readonly #waiters = new Map<string, Waiter>();
  readonly #listening = new Map<Node, Promise<() => Promise<void>>>();
  readonly #deaf = new Map<Node, Error>();
  #tellLoss: TellLoss | null = null;
  #closed = false;

  constructor(nodes: readonly Node[], channel: string) {
    this.#nodes = nodes;
    this.#channel = channel;
  }

  /** The nodes that do not let this client listen, with their reasons. */
  get deaf(): ReadonlyMap<Node, Error> {
    return this.#deaf;
  }

  /** Resolves when a majority can be heard, or nothing more is to be expected. Never waits for a node that is silent. */
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
        this.#listen(node).then(
          () => settled(true),
          () => settled(false),
        );
      }
    });
  }

  async wake(id: string, wake: () => void): Promise<() => void> {
    this.#waiters.set(id, { wake, said: new Set() });
    await this.start();
    return () => this.#waiters.delete(id);
  }

  /** The request looks for itself: what was said before is old. */
  looked(id: string): void {
    this.#waiters.get(id)?.said.clear();
  }

  onLoss(tell: TellLoss): () => void {
    this.#tellLoss = tell;
    return () => {
      this.#tellLoss = null;
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#waiters.clear();
    this.#tellLoss = null;
    // One that never came to be is closed with its node.
    for (const listening of this.#listening.values()) listening.then((stop) => stop()).catch(() => {});
    await Promise.resolve();
  }

  #listen(node: Node): Promise<unknown> {
    const known = this.#listening.get(node);
    if (known !== undefined) return known;
    const listening = node
      .connected()
      .then((port) => port.subscribe(this.#channel, (message) => this.#hear(node, message)));
    this.#listening.set(node, listening);
    listening.then(
      () => this.#deaf.delete(node),
      (error: unknown) => {
        this.#listening.delete(node);
        this.#deaf.set(node, error instanceof Error ? error : new Error(String(error)));
      },
    );
    return listening;
  }

  /** Anybody may publish anything: what is not ours is passed over. */
  #hear(node: Node, message: string): void {
    const [kind, id = "", ...words] = message.split(" ");
    if (kind === "revoked") this.#tellLoss?.(id, "revoked", words.join(" "));
    const waiter = kind === "look" ? this.#waiters.get(id) : undefined;
    if (waiter === undefined) return;
    waiter.said.add(node);
    if (waiter.said.size < majorityOf(this.#nodes.length)) return;
    waiter.said.clear();
    waiter.wake();
  }
}
