// What one turn of the event loop asks of a node goes there as one command: most of what a vote costs is the
// call, not the vote. A batch never waits for more than that turn, and an item that fails fails alone.

import type { System } from "../../core/system.ts";
import { type CallContext, type Reply, textOf } from "../redis/client/port.ts";
import type { Node } from "./node.ts";
import { scripts } from "./scripts.generated.ts";

/** More would keep a node from other work for too long. */
const LARGEST_BATCH = 32;

/** One item for one node. `at` is the node's place in the node set. */
export interface BatchItem {
  readonly record: string;
  readonly item: string;
  /** How long the item may wait for a connection. */
  readonly timeoutMs: number;
  replied(at: number, reply: Reply): void;
  failed(at: number, error: unknown): void;
}

export class NodeBatcher {
  readonly #nodes: readonly Node[];
  readonly #items: BatchItem[][];
  readonly #markerKey: string;
  /** What every script begins with. */
  readonly #head: readonly string[];
  readonly #system: System;
  #isScheduled = false;

  constructor(nodes: readonly Node[], markerKey: string, head: readonly string[], system: System) {
    this.#nodes = nodes;
    this.#items = nodes.map(() => []);
    this.#markerKey = markerKey;
    this.#head = head;
    this.#system = system;
  }

  add(at: number, item: BatchItem): void {
    (this.#items[at] as BatchItem[]).push(item);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // At the end of this turn of the loop, when everybody who goes on in it has asked.
    process.nextTick(() => this.#flush());
  }

  #flush(): void {
    this.#isScheduled = false;
    for (const [at, items] of this.#items.entries()) {
      if (items.length === 0) continue;
      this.#items[at] = [];
      if (items.length <= LARGEST_BATCH) this.#send(at, items);
      else
        for (let from = 0; from < items.length; from += LARGEST_BATCH)
          this.#send(at, items.slice(from, from + LARGEST_BATCH));
    }
  }

  #send(at: number, items: readonly BatchItem[]): void {
    const words = ["EVALSHA", scripts.batch.sha, String(items.length + 1), this.#markerKey];
    let timeoutMs = 0;
    for (const item of items) {
      words.push(item.record);
      // Where there is no connection, all wait as long as the most patient one.
      timeoutMs = Math.max(timeoutMs, item.timeoutMs);
    }
    words.push(...this.#head);
    for (const { item } of items) words.push(item);
    this.#ask(at, words, items, new BatchCall(this.#system, timeoutMs));
  }

  #ask(at: number, words: string[], items: readonly BatchItem[], call: BatchCall): void {
    const node = this.#nodes[at] as Node;
    const sentMs = this.#system.monoMs();
    node.send(words, call).then(
      (reply) => {
        const replies = reply as readonly Reply[];
        node.readClock(textOf(replies[items.length]), sentMs);
        for (const [nth, item] of items.entries()) deliver(at, item, replies[nth]);
      },
      (error: unknown) => {
        // Nothing has run: the server was restarted, or its scripts were flushed.
        if (words[0] === "EVALSHA" && error instanceof Error && error.message.startsWith("NOSCRIPT")) {
          [words[0], words[1]] = ["EVAL", scripts.batch.text];
          this.#ask(at, words, items, call);
        } else for (const item of items) item.failed(at, error);
      },
    );
  }
}

function deliver(at: number, item: BatchItem, reply: Reply): void {
  if (Array.isArray(reply) && textOf(reply[0] as Reply) === "error")
    item.failed(at, new Error(textOf(reply[1] as Reply)));
  else item.replied(at, reply);
}

/**
 * What a batch gives to a client that has to connect first. On a connection that works it is not looked at.
 */
class BatchCall implements CallContext {
  readonly timeoutMs: number;
  readonly #system: System;
  #signal: AbortSignal | null = null;

  constructor(system: System, timeoutMs: number) {
    this.#system = system;
    this.timeoutMs = timeoutMs;
  }

  get signal(): AbortSignal {
    if (this.#signal === null) {
      const controller = this.#system.abortController?.() ?? new AbortController();
      this.#signal = controller.signal;
      this.#system.after(this.timeoutMs, () => controller.abort(), "background");
    }
    return this.#signal;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#system.after(ms, resolve, "background");
    });
  }
}
