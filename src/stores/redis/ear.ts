// A subscription that moves from node to node: when its connection ends it is made again at once, and if that fails, with the
// next command that is sent. What was published meanwhile is lost; nothing depends on it.

import type { Link } from "./link.ts";

const QUIET = (): void => {};

export class Ear {
  readonly #dial: () => Promise<Link>;
  readonly #channel: string;
  readonly #hear: (message: string) => void;
  #link: Link | null = null;
  #trying: Promise<void> | null = null;
  #closed = false;

  constructor(dial: () => Promise<Link>, channel: string, hear: (message: string) => void) {
    this.#dial = dial;
    this.#channel = channel;
    this.#hear = hear;
  }

  get deaf(): boolean {
    return this.#link === null && !this.#closed;
  }

  /** Resolves when messages can arrive. One try. */
  listen(): Promise<void> {
    if (this.#link !== null || this.#closed) return Promise.resolve();
    if (this.#trying !== null) return this.#trying;
    const trying: Promise<void> = this.#listenOnce(() => this.#trying === trying).finally(() => {
      if (this.#trying === trying) this.#trying = null;
    });
    this.#trying = trying;
    return trying;
  }

  /** Tries once more, in the background. */
  mend(): void {
    if (this.deaf) this.listen().catch(QUIET);
  }

  /** The node that is listened to is no longer the right one. */
  move(): void {
    this.#trying = null;
    const link = this.#link;
    this.#link = null;
    link?.end();
    this.mend();
  }

  close(): void {
    this.#closed = true;
    this.#link?.end();
    this.#link = null;
  }

  async #listenOnce(wanted: () => boolean): Promise<void> {
    const link = await this.#dial();
    try {
      await link.subscribe(this.#channel, this.#hear);
      if (this.#closed || !wanted()) throw new Error("the subscription came too late");
    } catch (error) {
      link.end();
      throw error;
    }
    this.#link = link;
    link.onEnd(() => {
      if (this.#link !== link) return;
      this.#link = null;
      this.mend();
    });
  }
}
