// The memory store with glass walls: planted mistakes reach into its records, which nobody else may see.

import type { StoreEnv } from "../../src/core/store.ts";
import type { System } from "../../src/core/system.ts";
import { MemoryServer } from "../../src/stores/memory/server.ts";
import { MemoryStore, MemoryWorld } from "../../src/stores/memory/store.ts";
import type { Wake } from "../../src/stores/shared/ledger.ts";
import type { KeyRecord } from "../../src/stores/shared/record.ts";

export class GlassWorld extends MemoryWorld {
  readonly #stores = new Map<string, MemoryStore>();
  readonly #byClock = new Map<System, MemoryServer>();

  override open(env: StoreEnv): MemoryStore {
    const { system } = env;
    const server =
      this.#byClock.get(system) ??
      new MemoryServer({
        monoMs: () => system.monoMs(),
        wallMs: () => system.wallMs(),
        alive: (proc) => this.#stores.has(proc),
      });
    this.#byClock.set(system, server);
    const store = new MemoryStore(this, server, env);
    // Mistakes are planted in the methods, which the callback forms go past.
    Reflect.deleteProperty(store, "direct");
    this.#stores.set(store.proc, store);
    return store;
  }

  override push(wake: Wake): void {
    this.#stores.get(wake.proc)?.hear(wake);
  }

  override close(proc: string): void {
    this.#stores.delete(proc);
  }

  /** The records of these keys, in any namespace: a case has keys of its own. */
  records(keys: readonly string[]): KeyRecord[] {
    return [...this.#byClock.values()]
      .flatMap((server) => [...server.records.values()])
      .filter((record) => keys.includes(record.key));
  }

  /** As if the server had started without its data. */
  forget(): void {
    for (const server of this.#byClock.values()) server.records.clear();
  }
}
