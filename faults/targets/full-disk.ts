// A store whose disk is full for a while. What that means is each server's own affair: some refuse, some wait, some end themselves, and
// an operator starts those again once there is room. Every strike must have been noticed by a server, or the run fails.

import { setTimeout as sleep } from "node:timers/promises";
import type { Disk } from "../disk.ts";
import type { Trick } from "./target.ts";

export const FULL_DISK = "full-disk";
const NOTICED_MS = 10_000;
const LOOK_EVERY_MS = 10;

/** One of the ways in which a disk fills up. They take turns. */
export interface Filling {
  /** What is full. */
  readonly folder: string;
  /** While there still is room. */
  readonly before?: () => Promise<unknown>;
  /** Makes somebody write who would not by himself. It may be refused. */
  readonly provoke?: () => Promise<unknown>;
  /** There is room again: what an operator does then. */
  readonly mend?: () => Promise<unknown>;
}

/** `disk` is null in a run of another fault, where the servers were started without one. */
export function fullDisk(
  disk: Pick<Disk, "fill" | "free" | "answers"> | null,
  fillings: readonly Filling[],
  survives = "store full",
  noticedMs: number = NOTICED_MS,
): Trick {
  let strikes = 0;
  let filling: Filling | undefined;
  return {
    everyMs: [500, 2_000],
    forMs: [200, 2_500],
    survives,
    async begin() {
      if (disk === null) throw new Error(`the servers of this run have no disk that could be full`);
      filling = fillings[strikes % fillings.length] as Filling;
      strikes += 1;
      await filling.before?.();
      const { answers } = disk;
      disk.fill(filling.folder);
      const provoked = filling.provoke?.().catch(() => {});
      await noticed(() => disk.answers > answers, noticedMs);
      await provoked;
    },
    async end() {
      disk?.free();
      await filling?.mend?.();
    },
  };
}

/** A full disk that nobody notices proves nothing. */
async function noticed(look: () => boolean, withinMs: number): Promise<void> {
  const endMs = performance.now() + withinMs;
  while (!look()) {
    if (performance.now() > endMs)
      throw new Error(`the disk was full for ${withinMs} ms, and nobody tried to write more to it`);
    await sleep(LOOK_EVERY_MS);
  }
}
