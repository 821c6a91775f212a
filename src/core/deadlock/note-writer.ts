// What a held record says about what its holder waits for. A note is written and cleared at once, one call after the other per
// hold; where the outcome of one is unknown it is told again until the store has heard the latest. A hold that carries a
// note is not handed on inside the process: the note would be another's.

import { type Caller, callTimeoutMs } from "../util/store-call.ts";
import type { Hold } from "../lease/hold.ts";
import type { Renewal } from "../lease/renewal.ts";
import type { OpenStore } from "../store.ts";
import type { System } from "../system.ts";

const RETRY_MS = 100;

interface Entry {
  wanted: string | null;
  /** undefined: unknown. */
  written: string | null | undefined;
  /** The record knows the fence in use. */
  fenceTold: boolean;
  /** The call under way, and those behind it. */
  chain: Promise<void>;
}

export class Notes {
  readonly #store: OpenStore;
  readonly #caller: Caller;
  readonly #system: System;
  readonly #renewal: Renewal;
  readonly #entries = new Map<Hold, Entry>();

  constructor(store: OpenStore, caller: Caller, system: System, renewal: Renewal) {
    this.#store = store;
    this.#caller = caller;
    this.#system = system;
    this.#renewal = renewal;
  }

  /** null clears it. Resolves when the store has been asked, whatever became of it. */
  set(hold: Hold, note: string | null): Promise<void> {
    let entry = this.#entries.get(hold);
    if (entry === undefined) {
      if (note === null || hold.ended) return Promise.resolve();
      entry = { wanted: null, written: null, fenceTold: false, chain: Promise.resolve() };
      this.#entries.set(hold, entry);
    }
    if (entry.wanted === note) return entry.chain;
    entry.wanted = note;
    if (note !== null) hold.noted = true;
    return this.#tell(hold, entry);
  }

  forget(hold: Hold): void {
    this.#entries.delete(hold);
  }

  #tell(hold: Hold, entry: Entry): Promise<void> {
    entry.chain = entry.chain.then(() => this.#write(hold, entry));
    return entry.chain;
  }

  async #write(hold: Hold, entry: Entry): Promise<void> {
    const note = entry.wanted;
    if (hold.ended || note === entry.written) return this.#rest(hold, entry);
    try {
      // Others tell the holder by its fence: the record has to know of hand-offs first.
      if (!entry.fenceTold && hold.wasPassed) await this.#renewal.now(hold, hold.ttlMs);
      entry.fenceTold = true;
      entry.written = undefined;
      await this.#caller.call("note", hold.request.keys[0], callTimeoutMs(hold.ttlMs), (io) =>
        this.#store.note(hold.request, hold.cookie, note === null ? null : { waitingFor: note }, io),
      );
      entry.written = note;
    } catch {
      if (!hold.ended) this.#system.after(RETRY_MS, () => void this.#tell(hold, entry), "background");
    }
    this.#rest(hold, entry);
  }

  /** Nothing is written and nothing is to be: the hold is as any other. */
  #rest(hold: Hold, entry: Entry): void {
    if (entry.wanted !== null || entry.written !== null || this.#entries.get(hold) !== entry) return;
    hold.noted = false;
    this.#entries.delete(hold);
  }
}
