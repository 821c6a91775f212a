// What defines a run, what its processes are started with, and what they say to each other. Types and plain data only.

import type { AllowName } from "../src/index.ts";

export interface RunSettings {
  readonly store: string;
  readonly fault: string;
  readonly seed: number;
  readonly seconds: number;
  /** Client processes at a time. */
  readonly clients: number;
  /** Tasks in each of them. */
  readonly tasks: number;
  /** Planted defects that the checkers must find, dealt out to the clients in turn. None in a run that counts. */
  readonly cheats: readonly Cheat[];
  /** `grace` of the clients, where it is not the default. */
  readonly graceMs?: number | undefined;
}

export const DEFAULTS = { store: "local", fault: "pause", seconds: 40, clients: 6, tasks: 4 } as const;

export const CHEATS = [
  "no-lock",
  "long-window",
  "fence-back",
  "true-release",
  "late-loss",
  "slow-ask",
  "hog",
  "keep",
  "undying",
  "bare-error",
  "open-guard",
  "silent-close",
  "endless-close",
] as const;
export type Cheat = (typeof CHEATS)[number];

export interface ClientSetup {
  readonly name: string;
  readonly url: string;
  /** Unsafe settings of the store that are accepted by name. */
  readonly allow: readonly AllowName[];
  readonly seed: number;
  readonly graceMs?: number | undefined;
  /** Where journals go. */
  readonly folder: string;
  readonly resource: string;
  readonly tasks: number;
  readonly cheat: Cheat | null;
  /** Takes every key once and leaves. */
  readonly probe: boolean;
}

export interface ResourceSetup {
  readonly socket: string;
  readonly folder: string;
  /** Lets every fence through. */
  readonly open: boolean;
}

export type ToClient =
  | { readonly do: "start" }
  /** Keep the event loop from turning; `busy` burns the processor, else it sleeps in the kernel. */
  | { readonly do: "block"; readonly ms: number; readonly busy: boolean }
  | { readonly do: "finish" };

export type FromClient = { readonly say: "ready" } | { readonly say: "holding"; readonly leases: number };

/** One touch of a register. `write` null only reads, and under guard claims. */
export interface TouchCall {
  readonly n: number;
  readonly client: string;
  readonly key: string;
  readonly fence: string;
  readonly guarded: boolean;
  readonly write: number | null;
}

/** What the register held; null when the fence was stale. */
export interface TouchReply {
  readonly n: number;
  readonly before: number | null;
}
