// The reference store's own server behind a network.

import type { Guarantees, Store } from "../../src/core/store.ts";
import { type Fault, type FaultKind, FORGETFUL } from "../settings.ts";
import { type Backend, type BackendDeps, type Pushes, WORST_RATE } from "./backend.ts";
import type { Network } from "./network.ts";
import type { SimProcess } from "./process.ts";
import { SimServer } from "./server.ts";
import { simGuarantees, simStore, Switchboard } from "./store.ts";

const BROOM = { proc: "broom", namespace: "holdfast" };

export class MemoryBackend implements Backend {
  readonly guarantees: Guarantees = simGuarantees;
  readonly rounds = 1;
  readonly weaknesses: readonly FaultKind[] = FORGETFUL;
  readonly quarantineMs = 0;
  readonly opens = false;
  readonly #server: SimServer;
  readonly #network: Network;
  readonly #switchboard = new Switchboard();

  constructor({ timeline, network, random, record }: BackendDeps) {
    this.#network = network;
    this.#server = new SimServer(timeline, 1 + random.between(-WORST_RATE, WORST_RATE), record);
  }

  get pushes(): Pushes {
    return this.#switchboard.pushes;
  }

  store(process: SimProcess): Store {
    return simStore(process, this.#server, this.#network, this.#switchboard);
  }

  struck(): readonly string[] {
    return [this.#server.name];
  }

  freeze({ ms }: Fault): void {
    this.#server.freeze(ms);
  }

  restart({ ms }: Fault, forget: boolean): void {
    this.#server.restart(ms / 5, forget);
  }

  jump({ ms }: Fault): void {
    this.#server.jump(ms * 2);
  }

  thaw(): void {
    this.#server.thaw();
  }

  /** The server forgets what has expired when it is next asked about a key. */
  leftovers(): string[] {
    for (const key of ["k0", "k1"]) {
      this.#server.arrives(
        (server) => server.inspect(BROOM, key),
        () => {},
      );
    }
    return this.#server.leftovers();
  }
}
