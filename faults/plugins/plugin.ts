// What a fault is: a few verbs that the nemesis calls. A plug-in acts through the crew and the target only, and after
// `stop` everything that it has done must be undone.

import type { Random } from "../../sim/world/random.ts";
import type { Crew } from "../crew.ts";
import type { Target } from "../targets/target.ts";

export interface Run {
  readonly crew: Crew;
  readonly target: Target;
  /** For files that go away with the run. */
  readonly folder: string;
  /** Writes down that something was done. */
  readonly mark: (what: string) => void;
}

export interface Plugin {
  readonly name: string;
  /** Shortest and longest time between two strikes. */
  readonly everyMs: readonly [number, number];
  /** Exclusion is held against a store that declares to survive this; without a name, against every store. */
  readonly survives?: string;
  /** It sets the clients' clocks. */
  readonly setsClocks?: boolean;
  /** The faults of which this one is made. Their marks begin with their names. */
  readonly parts?: readonly Plugin[];
  /** It has strikes to make that the run must not end without. */
  readonly owes?: () => boolean;
  /** Before the first client is started. Throws when this fault is not possible here. */
  start(run: Run): Promise<void>;
  strike(run: Run, random: Random): Promise<void>;
  stop(run: Run): Promise<void>;
  /** When the last client is gone. */
  end?(): Promise<void>;
}

export const nothing = (): Promise<void> => Promise.resolve();

/** How the mark of a part begins, in a fault that is made of several. */
export const markOf = (part: Plugin, what: string): string => `${part.name}: ${what}`;

export const struckBy = (mark: string, part: Plugin): boolean => mark.startsWith(markOf(part, ""));
