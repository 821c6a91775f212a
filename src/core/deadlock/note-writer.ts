// Writes notes, which say what the holder of a record waits for, into the store. The calls of one hold
// run one after the other. If the outcome of a call is unknown, the writer repeats it until the store has
// the latest note. A hold with a note is not handed off to another task, because the note would not be
// true for it.

import { type Caller, callTimeoutMs } from "../util/store-call.ts";
import type { Hold } from "../lease/hold.ts";
import type { Renewal } from "../lease/renewal.ts";
import type { OpenStore } from "../store.ts";
import type { System } from "../system.ts";

const RETRY_MS = 100;

interface NoteState {
  wanted: string | null;
  /** undefined: unknown, because a call failed. */
  written: string | null | undefined;
  /** The record in the store has the current fence. */
  isFenceWritten: boolean;
  /** Settles after the current call and all queued calls. */
  chain: Promise<void>;
}

export class NoteWriter {
  readonly #store: OpenStore;
  readonly #caller: Caller;
  readonly #system: System;
  readonly #renewal: Renewal;
  readonly #states = new Map<Hold, NoteState>();

  constructor(store: OpenStore, caller: Caller, system: System, renewal: Renewal) {
    this.#store = store;
    this.#caller = caller;
    this.#system = system;
    this.#renewal = renewal;
  }

  /** Writes a note, or clears it with null. Resolves when the store has answered or failed. */
  set(hold: Hold, note: string | null): Promise<void> {
    let state = this.#states.get(hold);
    if (state === undefined) {
      if (note === null || hold.ended) return Promise.resolve();
      state = { wanted: null, written: null, isFenceWritten: false, chain: Promise.resolve() };
      this.#states.set(hold, state);
    }
    if (state.wanted === note) return state.chain;
    state.wanted = note;
    if (note !== null) hold.noted = true;
    return this.#enqueueWrite(hold, state);
  }

  forget(hold: Hold): void {
    this.#states.delete(hold);
  }

  #enqueueWrite(hold: Hold, state: NoteState): Promise<void> {
    state.chain = state.chain.then(() => this.#write(hold, state));
    return state.chain;
  }

  async #write(hold: Hold, state: NoteState): Promise<void> {
    const note = state.wanted;
    if (hold.ended || note === state.written) return this.#forgetIfCleared(hold, state);
    try {
      // Other processes identify the holder by its fence, so a hand-off must be written to the record first.
      if (!state.isFenceWritten && hold.wasPassed) await this.#renewal.now(hold, hold.ttlMs);
      state.isFenceWritten = true;
      state.written = undefined;
      await this.#caller.call("note", hold.request.keys[0], callTimeoutMs(hold.ttlMs), (io) =>
        this.#store.note(hold.request, hold.cookie, note === null ? null : { waitingFor: note }, io),
      );
      state.written = note;
    } catch {
      if (!hold.ended) this.#system.after(RETRY_MS, () => void this.#enqueueWrite(hold, state), "background");
    }
    this.#forgetIfCleared(hold, state);
  }

  /** Forgets a hold whose note is cleared. */
  #forgetIfCleared(hold: Hold, state: NoteState): void {
    if (state.wanted !== null || state.written !== null || this.#states.get(hold) !== state) return;
    hold.noted = false;
    this.#states.delete(hold);
  }
}
