// All that one opened store has in the directory: its process file, mailbox, connections and open files. It is made whole
// or not at all, and closing it leaves nothing behind. The store replaces it when somebody removed its files.

import type { StoreEnv } from "../../core/store.ts";
import type { Wake } from "../shared/ledger.ts";
import { removeOtherBoots } from "./boots.ts";
import { Floor } from "./floor.ts";
import { Janitor } from "./janitor.ts";
import { type KernelLock, loadKernelLock } from "./kernel-lock.ts";
import { KeyFiles } from "./key-files.ts";
import { Links } from "./links.ts";
import { Mailbox, type Message, Roads } from "./mailbox.ts";
import { Peers } from "./peers.ts";
import { Place } from "./place.ts";
import { ProcessFile } from "./process-file.ts";
import { Steps } from "./steps.ts";

/** Where the session tells its store. */
export interface Ears {
  hear(message: Message): void;
  /** The process that this waiter watched has lost its mailbox. */
  alarm(waiter: string): void;
}

export class Session {
  readonly place: Place;
  readonly kernel: KernelLock;
  readonly process: ProcessFile;
  readonly peers: Peers;
  readonly files: KeyFiles;
  readonly links: Links;
  readonly steps: Steps;
  readonly #ears: Ears;
  readonly #roads: Roads;
  readonly #floor: Floor;
  readonly #janitor: Janitor;
  #mailbox: Mailbox | null = null;

  private constructor(place: Place, kernel: KernelLock, process: ProcessFile, env: StoreEnv, ears: Ears) {
    const { system } = env;
    this.place = place;
    this.kernel = kernel;
    this.process = process;
    this.#ears = ears;
    this.#floor = Floor.open(place.floor, kernel);
    this.#roads = new Roads(place, process.id);
    this.peers = new Peers(place, kernel);
    this.files = new KeyFiles(place, kernel, env.namespace, process.id);
    this.links = new Links(this.#roads, system, (waiter) => ears.alarm(waiter));
    this.steps = new Steps({
      system,
      files: this.files,
      floor: this.#floor,
      peers: this.peers,
      self: process.id,
      deliver: (wake) => this.#deliver(wake),
      made: (count) => this.#janitor.made(count),
    });
    this.#janitor = new Janitor({
      place,
      kernel,
      peers: this.peers,
      floor: this.#floor,
      steps: this.steps,
      system,
    });
  }

  static async open(dir: string | undefined, env: StoreEnv, ears: Ears): Promise<Session> {
    const kernel = loadKernelLock();
    const freshId = (): string => env.system.randomId();
    const place = Place.open(dir, freshId);
    const process = ProcessFile.create(place, kernel, freshId, env.system.processLabel);
    let session: Session;
    try {
      session = new Session(place, kernel, process, env, ears);
    } catch (error) {
      process.close();
      throw error;
    }
    try {
      session.#mailbox = await Mailbox.open(place, session.#roads, process.id, (message) =>
        ears.hear(message),
      );
      removeOtherBoots(place, kernel, env.system);
      session.#janitor.visit();
      return session;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    this.steps.stop();
    this.#janitor.visit();
    this.#janitor.close();
    await this.links.close();
    await this.#mailbox?.close();
    this.files.close();
    this.peers.close();
    this.#floor.close();
    this.#roads.close();
    this.process.close();
  }

  #deliver(wake: Wake): void {
    const message: Message =
      wake.revoked === undefined ? { wake: wake.id } : { revoked: wake.id, reason: wake.revoked };
    if (wake.proc === this.process.id) this.#ears.hear(message);
    else this.links.send(wake.proc, message);
  }
}
