// One dialler, a process of its own: pick an idle number, mark it, dial, hang up, mark it idle; again until told to stop.
// Between looking and marking it thinks for a moment, as every real program does; without a lock that moment is the race.
// It ends when its parent does: nobody must find it still dialling.

import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type Locks } from "../index.ts";
import { PhoneTable } from "./phone-table.ts";

const THINK_MS = 2;
const DIAL_MS = 12;
const NONE_IDLE_MS = 5;
const TELL_EVERY_MS = 100;

/** What a dialler has done so far. */
export interface Tally {
  dials: number;
  collisions: number;
  longestWaitMs: number;
}

class Dialler {
  readonly tally: Tally = { dials: 0, collisions: 0, longestWaitMs: 0 };
  readonly #table: PhoneTable;
  readonly #locks: Locks | null;

  constructor(folder: string, locks: Locks | null) {
    this.#table = new PhoneTable(folder);
    this.#locks = locks;
  }

  async dialOnce(): Promise<void> {
    const number = await this.#alone(() => this.#pick());
    if (number === null) {
      await sleep(NONE_IDLE_MS);
      return;
    }
    const alone = this.#table.pickUp(number);
    this.tally.dials += 1;
    if (!alone) this.tally.collisions += 1;
    await sleep(DIAL_MS);
    if (alone) this.#table.hangUp(number);
    await this.#alone(() => Promise.resolve(this.#table.mark(number, "idle")));
  }

  async #pick(): Promise<number | null> {
    const number = this.#table.firstIdle();
    if (number === null) return null;
    await sleep(THINK_MS);
    this.#table.mark(number, "dialling");
    return number;
  }

  async #alone<T>(change: () => Promise<T>): Promise<T> {
    if (this.#locks === null) return change();
    const askedAtMs = performance.now();
    return this.#locks.using("phones", (_lease) => {
      this.tally.longestWaitMs = Math.max(this.tally.longestWaitMs, performance.now() - askedAtMs);
      return change();
    });
  }
}

async function main(folder: string, store: string): Promise<void> {
  let running = true;
  process.on("message", () => (running = false));
  process.on("disconnect", () => process.exit(1));
  // Ctrl-C reaches the whole group; the parent decides when to stop.
  process.on("SIGINT", () => {});
  const locks = store === "" ? null : createLocks(store);
  const dialler = new Dialler(folder, locks);
  const tell = (): boolean => process.send?.(dialler.tally) ?? false;
  const telling = setInterval(tell, TELL_EVERY_MS);
  while (running) await dialler.dialOnce();
  clearInterval(telling);
  await locks?.close();
  tell();
  process.disconnect();
  process.exit(0);
}

const [folder = "", store = ""] = process.argv.slice(2);
await main(folder, store);
