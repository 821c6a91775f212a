// `holdfast/local`: locks between all processes of one machine, with the kernel as the lock server.
// This file stays light: the native addon and the rest of the store are loaded when a store is opened, never on import.

import { isAbsolute } from "node:path";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import { localGuarantees } from "./guarantees.ts";
import type { LocalOpenStore } from "./store.ts";

export { localGuarantees } from "./guarantees.ts";

export interface LocalOptions {
  /** Where the files live. Absent: a directory of this user's own. Name one to share it between users. */
  readonly dir?: string;
}

export interface LocalStore extends Store {
  /**
   * The descriptor that proves this process alive, of the store opened last; null when none is open. A child that
   * inherits it keeps every key of this process taken until it is gone too, even when this process is killed.
   */
  lifeline(): number | null;
}

export function local(options: LocalOptions = {}): LocalStore {
  for (const name of Object.keys(options)) {
    if (name !== "dir")
      throw new InvalidArgumentError(`local() has no option ${JSON.stringify(name)}: it knows dir`);
  }
  const dir = options.dir === undefined ? undefined : checkDir(options.dir);
  let last: LocalOpenStore | null = null;
  return {
    name: "local",
    guarantees: localGuarantees,
    async open(env: StoreEnv): Promise<OpenStore> {
      const { LocalOpenStore } = await import("./store.ts");
      last = await LocalOpenStore.open(dir, env);
      return last;
    },
    lifeline: () => last?.lifeline ?? null,
  };
}

/** `local:` or `local:/some/dir`. The path is taken as it stands: nothing in it is decoded. */
export function localByUrl(url: string): LocalStore {
  const path = url.slice("local:".length);
  if (path === "" || path === "//") return local();
  if (path.startsWith("//") && !path.startsWith("///")) {
    throw new InvalidArgumentError(
      `${JSON.stringify(url)} names a host, and the local store is of this machine: write local:/some/dir`,
    );
  }
  return local({ dir: path });
}

function checkDir(dir: unknown): string {
  if (typeof dir === "string" && isAbsolute(dir) && !dir.includes("\0")) return dir;
  throw new InvalidArgumentError(
    `the directory of the local store is an absolute path, not ${JSON.stringify(dir)}: ` +
      "processes started in different places must meet",
  );
}
