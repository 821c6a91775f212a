// What one turn of the event loop asks of a node goes there as one command: most of what a vote costs is the call, not the vote.
// It never waits for more than that turn, and what is wrong with one item is no affair of the others.

import type { System } from "../../core/system.ts";
import { listOf, type Patience, type Reply, textOf } from "../redis/port.ts";
import type { Node } from "./node.ts";

/** More would keep a node from other work for too long. */
const LARGEST_BATCH = 32;

interface Job {
  readonly record: string;
  readonly item: string;
  readonly patience: Patience;
  resolve(reply: Reply): void;
  reject(error: unknown): void;
}

export class Desk {
  readonly #node: Node;
  readonly #markerKey: string;
  readonly #head: readonly string[];
  readonly #system: System;
  #jobs: Job[] = [];

  constructor(node: Node, markerKey: string, head: readonly string[], system: System) {
    this.#node = node;
    this.#system = system;
    this.#markerKey = markerKey;
    this.#head = head;
  }

  /** Resolves to what the node answers to this item. */
  ask(record: string, item: string, patience: Patience): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.#jobs.push({ record, item, patience, resolve, reject });
      // At the end of this turn of the loop, when everybody who goes on in it has asked.
      if (this.#jobs.length === 1) process.nextTick(() => this.#flush());
    });
  }

  #flush(): void {
    const jobs = this.#jobs;
    this.#jobs = [];
    if (jobs.length <= LARGEST_BATCH) this.#send(jobs);
    else
      for (let at = 0; at < jobs.length; at += LARGEST_BATCH) this.#send(jobs.slice(at, at + LARGEST_BATCH));
  }

  #send(jobs: readonly Job[]): void {
    const [names, words] = [[this.#markerKey], [...this.#head]];
    for (const { record, item } of jobs) {
      names.push(record);
      words.push(item);
    }
    // Where there is no connection, all wait as long as the most patient one.
    const { patience } = jobs.reduce((a, b) => (waitMs(b) >= waitMs(a) ? b : a));
    const sentMs = this.#system.monoMs();
    this.#node.script("votes", names, words, patience).then(
      (reply) => {
        const replies = listOf(reply);
        this.#node.readClock(textOf(replies[jobs.length]), sentMs);
        answer(jobs, replies);
      },
      (error: unknown) => {
        for (const job of jobs) job.reject(error);
      },
    );
  }
}

function waitMs({ patience }: Job): number {
  return patience.timeoutMs ?? 0;
}

function answer(jobs: readonly Job[], replies: readonly Reply[]): void {
  for (const [at, job] of jobs.entries()) {
    const reply = replies[at];
    if (Array.isArray(reply) && textOf(reply[0] as Reply) === "error")
      job.reject(new Error(textOf(reply[1] as Reply)));
    else job.resolve(reply);
  }
}
