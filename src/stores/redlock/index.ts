// `holdfast/redlock`: locks over N independent Redis or Valkey masters. A majority of them grants a lock.
// Clients and the rest of the store are loaded when a store is opened, never on import.

import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import { redlockGuarantees } from "./guarantees.ts";
import { readOptions, readUrl, type RedlockOptions } from "./options.ts";

export { redlockGuarantees } from "./guarantees.ts";
export type { RedlockOptions } from "./options.ts";

export function redlock(options: RedlockOptions): Store {
  const { nodes, driver, settings } = readOptions(options);
  // Once for all nodes: a client that is not installed is an error of its own, not that of a majority.
  const loadClient = async (): Promise<void> => {
    if (nodes.every((node) => typeof node !== "string")) return;
    const { loadDriver } = await import("../redis/client/connect.ts");
    await loadDriver(driver);
  };
  return {
    name: "redlock",
    guarantees: redlockGuarantees,
    load: () => Promise.all([import("./store.ts"), import("./create-nodes.ts"), loadClient()]),
    async open(env: StoreEnv): Promise<OpenStore> {
      await loadClient();
      const [{ RedlockOpenStore }, { createNodes }] = await Promise.all([
        import("./store.ts"),
        import("./create-nodes.ts"),
      ]);
      return RedlockOpenStore.open(createNodes(nodes, driver, env), env, settings);
    },
  };
}

/** `redlock://user:password@h1:p,h2:p,h3:p/db?maxTtl=60s`; `redlocks://` for TLS. */
export function redlockByUrl(url: string): Store {
  return redlock(readUrl(url));
}
