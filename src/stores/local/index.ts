// `holdfast/local`: locks between all processes of one machine, without a server.
// This file stays light: the rest of the store is loaded when a store is opened, never on import.

import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import { localGuarantees } from "./guarantees.ts";
import { directoryOf, type LocalOptions, optionsOfUrl } from "./options.ts";
import type { LocalOpenStore } from "./store.ts";

export { localGuarantees } from "./guarantees.ts";
export type { LocalOptions } from "./options.ts";

/** The local store. */
export interface LocalStore extends Store {
  /**
   * The file descriptor by which other processes see that this process is alive. It belongs to the store
   * that was opened last, and is null if no store is open. A child that inherits it keeps every key of
   * this process taken until the child ends too, even if this process is killed.
   */
  lifeline(): number | null;
}

/**
 * The embedded store: all processes of one machine, without a server.
 *
 * @example
 * const locks = createLocks(local({ dir: "/var/lib/phones/locks" }));
 */
export function local(options: LocalOptions = {}): LocalStore {
  const dir = directoryOf(options);
  let last: LocalOpenStore | null = null;
  return {
    name: "local",
    guarantees: localGuarantees,
    load,
    async open(env: StoreEnv): Promise<OpenStore> {
      const { LocalOpenStore } = await load();
      last = await LocalOpenStore.open(dir, env);
      return last;
    },
    lifeline: () => last?.lifeline ?? null,
  };
}

const load = () => import("./store.ts");

/** The store of a `local:` URL. */
export function localByUrl(url: string): LocalStore {
  return local(optionsOfUrl(url));
}
