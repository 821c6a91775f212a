// What a run needs to know of a store: how clients reach it, what it promises, and how it can be harmed. Types only.

import type { AllowName, Guarantees } from "../../src/index.ts";

/** A server that is ours to harm. */
export interface FaultyServer {
  readonly name: string;
  /** On the loopback address. A proxy may stand in front of it. */
  readonly port: number;
  /** kill -9, then started again on the same port with the data that it keeps. Resolves when it answers. */
  kill(): Promise<void>;
  /** The same, and started again as if it had never been. Absent where nothing can be forgotten so. */
  readonly wipe?: () => Promise<void>;
  freeze(): void;
  thaw(): void;
  /** kill -9, and nothing listens on its port until `up`, which resolves when it answers. */
  down?(): Promise<void>;
  up?(): Promise<void>;
}

/** The calendar of a server, in a run of `server-clock` or `server-slew`. */
export interface FaultyClock {
  readonly name: string;
  /** It is off by so much from now on. */
  set(offsetMs: number): void;
  /** As the server itself says. */
  nowMs(): Promise<number>;
}

/** A fault that only this store knows: what is done, and how it is undone after a while. */
export interface Trick {
  /** Shortest and longest time between two strikes. */
  readonly everyMs: readonly [number, number];
  /** Shortest and longest time until it is undone. */
  readonly forMs: readonly [number, number];
  /** Exclusion is held against a store that declares to survive this; without a name, against every store. */
  readonly survives?: string;
  /** Resolves only when it has taken hold. */
  readonly begin: () => Promise<void>;
  readonly end: () => Promise<void>;
}

export interface Target {
  readonly url: string;
  readonly guarantees: Guarantees;
  readonly servers: readonly FaultyServer[];
  /** Unsafe settings that the clients accept by name. */
  readonly allow?: readonly AllowName[];
  /** What it survives as it is set up here, beyond what the store promises everywhere. */
  readonly survives?: readonly string[];
  /** Faults, by name, that what runs here leaves to the fence because of a known defect of its own. */
  readonly fenced?: readonly string[];
  /** The URL by which each server is reached at another port. */
  readonly through?: (ports: readonly number[]) => string;
  /** The ports of all servers, where these tell clients where to go: a client behind proxies is told of the proxies instead. */
  readonly told?: readonly number[];
  /** What a client writes on a connection over which pushes will come. Absent where pushes share a connection with replies. */
  readonly listens?: RegExp;
  /** Those that can be set, also where this run does not. */
  readonly clocks?: readonly FaultyClock[];
  readonly tricks?: Readonly<Record<string, Trick>>;
  /** Where only these can come out otherwise than on another target of the same store. */
  readonly only?: readonly string[];
  /** When its servers have found together again after the last fault. */
  readonly settled?: () => Promise<unknown>;
  /** What runs here, for the record. */
  readonly version?: string;
  stop(): Promise<void>;
}

/** Makes the store of one run for one fault, with whatever it needs inside of the run's folder. */
export type TargetMaker = (folder: string, fault: string) => Promise<Target>;
