// What a run needs to know of a store: how clients reach it, what it promises, and which servers of it can be harmed.
// A store joins the runs by one more entry in the table below.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Guarantees } from "../src/index.ts";
import { localGuarantees } from "../src/stores/local/index.ts";

/** A server that is ours to harm. It must come back by itself after `kill`, with the data that it keeps. */
export interface FaultyServer {
  readonly name: string;
  /** kill -9, then started again. Resolves when it answers. */
  kill(): Promise<void>;
  freeze(): void;
  thaw(): void;
}

export interface Target {
  readonly url: string;
  readonly guarantees: Guarantees;
  readonly servers: readonly FaultyServer[];
  stop(): Promise<void>;
}

/** Makes the store of one run, with whatever it needs inside of the run's folder. */
export type TargetMaker = (folder: string) => Promise<Target>;

export const targets: Readonly<Record<string, TargetMaker>> = {
  local(folder) {
    const dir = join(folder, "store");
    mkdirSync(dir);
    const stop = (): Promise<void> => Promise.resolve();
    return Promise.resolve({ url: `local:${dir}`, guarantees: localGuarantees, servers: [], stop });
  },
};
