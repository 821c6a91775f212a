// Clean-up that costs next to nothing: a few files are looked at when a store is opened or closed and when a key file is
// made, so that there are never many more files than keys in use. Removes only what is certainly of no use, under the same
// latch as everybody else, and never reports a failure: whatever it leaves, the next one finds.

import { closeSync, type Dir, opendirSync } from "node:fs";
import { join } from "node:path";
import type { System } from "../../core/system.ts";
import { isIdle } from "../shared/record.ts";
import type { Floor } from "./floor.ts";
import type { KernelLock } from "./kernel-lock.ts";
import { parseRecord } from "./key-file.ts";
import { openExisting, remove } from "./key-files.ts";
import { lockedByAnybody, type Peers } from "./peers.ts";
import { isProcessId, type Place } from "./place.ts";
import { GONE, SlotFile } from "./slot-file.ts";
import type { Steps } from "./steps.ts";

/** An idle key that is used again this soon finds its file; later, making a new one is cheaper than keeping it. */
const KEEP_IDLE_US = 60_000_000;
/** Two for each file that is made: the files that are of no use shrink faster than new ones come. */
const PER_CREATE = 2;
const PER_VISIT = 32;

interface JanitorParts {
  readonly place: Place;
  readonly kernel: KernelLock;
  readonly peers: Peers;
  readonly floor: Floor;
  readonly steps: Steps;
  readonly system: System;
}

export class Janitor {
  readonly #parts: JanitorParts;
  #round: Dir | null = null;

  constructor(parts: JanitorParts) {
    this.#parts = parts;
  }

  /** At the opening and closing of a store. */
  visit(): void {
    quietly(() => this.#processes());
    this.#keys(PER_VISIT);
  }

  /** After so many key files were made. */
  made(count: number): void {
    this.#keys(count * PER_CREATE);
  }

  close(): void {
    quietly(() => this.#round?.closeSync());
    this.#round = null;
  }

  #processes(): void {
    const { place, peers, kernel } = this.#parts;
    const folder = opendirSync(place.folder);
    try {
      for (let left = PER_VISIT * 2; left > 0; left -= 1) {
        const name = folder.readSync()?.name;
        if (name === undefined) return;
        const id = name.replace(/^\.|\.sock$/g, "");
        if (!isProcessId(id)) continue;
        const path = join(place.folder, name);
        if (!name.startsWith(".")) {
          // Also takes a socket whose process file is gone.
          if (!peers.alive(id)) remove(path);
        } else if (!lockedByAnybody(path, kernel)) remove(path);
      }
    } finally {
      folder.closeSync();
    }
  }

  #keys(count: number): void {
    quietly(() => {
      for (let left = count; left > 0; left -= 1) {
        this.#round ??= opendirSync(this.#parts.place.keys);
        const name = this.#round.readSync()?.name;
        if (name === undefined) {
          this.close();
          return;
        }
        quietly(() => this.#look(name));
      }
    });
  }

  #look(name: string): void {
    const { place, peers, kernel } = this.#parts;
    const path = join(place.keys, name);
    if (name.startsWith(".")) {
      // A draft, named after whoever makes it.
      if (!peers.alive(name.slice(1, 33))) remove(path);
      return;
    }
    if (path === place.floor) return;
    const fd = openExisting(path);
    if (fd === null) return;
    try {
      const file = new SlotFile(path, fd, kernel);
      // Looked at twice: most files are in use, and for those a latch would only be in the way.
      if (this.#useless(file.peek(), path) === null || !file.tryLatch()) return;
      const last = file.linked ? this.#useless(file.read(), path) : null;
      if (last === null || !this.#parts.floor.raise(last)) return;
      file.write(GONE);
      remove(path);
    } finally {
      closeSync(fd);
    }
  }

  /** The last fence of a record that nobody needs any more, or null. */
  #useless(text: string, path: string): number | null {
    if (text === GONE) return 0;
    const { record } = parseRecord(text, path);
    this.#parts.steps.ledger(new Map()).sweep(record);
    const old = record.last + KEEP_IDLE_US < this.#parts.system.wallMs() * 1_000;
    return old && isIdle(record) ? record.last : null;
  }
}

function quietly(work: () => void): void {
  try {
    work();
  } catch {
    // See the head of this file.
  }
}
