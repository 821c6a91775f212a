// All watches of one opened store on one stream. A watch that is cut off, for whatever reason (the stream ended, the member was
// dropped, the revision was compacted away), says so once and is over: whoever set it looks again and sets a new one.

import { DELETED, NO_PUT, type WatchAnswer } from "./messages.ts";
import type { Span } from "./names.ts";
import type { EtcdPort, WatchStream } from "./port.ts";

/** News of one watch: names that were deleted, names that were written with their values, or that it was cut off. */
export type News =
  | { readonly deleted: string }
  | { readonly written: string; readonly value: string }
  | { readonly cutOff: true };

export interface WatchWish {
  readonly span: Span | { readonly key: string };
  /** The first revision of interest; 0 for what comes from now on. */
  readonly since: number;
  readonly deletesOnly: boolean;
}

export class Watches {
  readonly #port: EtcdPort;
  readonly #hear = new Map<number, (news: News) => void>();
  #stream: WatchStream | null = null;
  #next = 1;

  constructor(port: EtcdPort) {
    this.#port = port;
  }

  /** Gives the way to end it. */
  add(wish: WatchWish, hear: (news: News) => void): () => void {
    const id = this.#next;
    this.#next += 1;
    this.#hear.set(id, hear);
    const stream = this.#stream ?? this.#open();
    const filters = wish.deletesOnly ? [NO_PUT] : [];
    stream.send({ create: { ...wish.span, startRevision: wish.since, filters, id } });
    return () => {
      if (!this.#hear.delete(id)) return;
      this.#stream?.send({ cancel: { id } });
    };
  }

  /** Ends the stream. Whoever still watches is cut off. */
  rest(): void {
    this.#stream?.close();
    this.#cutOffAll();
  }

  close(): void {
    this.#hear.clear();
    this.#stream?.close();
    this.#stream = null;
  }

  #open(): WatchStream {
    const stream = this.#port.watch(
      (answer) => this.#take(answer),
      () => {
        if (this.#stream === stream) this.#cutOffAll();
      },
    );
    this.#stream = stream;
    return stream;
  }

  #take(answer: WatchAnswer): void {
    const hear = this.#hear.get(answer.id);
    if (hear === undefined) return;
    if (answer.canceled) {
      this.#hear.delete(answer.id);
      hear({ cutOff: true });
      return;
    }
    for (const { type, kv } of answer.events) {
      if (kv === null) continue;
      hear(type === DELETED ? { deleted: kv.key } : { written: kv.key, value: kv.value });
    }
  }

  #cutOffAll(): void {
    this.#stream = null;
    const all = [...this.#hear.values()];
    this.#hear.clear();
    for (const hear of all) hear({ cutOff: true });
  }
}
