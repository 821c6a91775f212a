// One process that takes, holds and lets go of a key when it is told to, and says when it is told of a loss.

import { createInterface } from "node:readline";
import { type Held, type HolderName, holderOf } from "../lib/holders.ts";
import { monoMs, settings } from "../lib/worker.ts";

export type HolderOrder =
  | { readonly do: "take"; readonly ttlMs: number }
  /** Keeps the event loop from turning, and asks right after it. */
  | { readonly do: "block"; readonly ms: number }
  | { readonly do: "release" };

export interface HolderWord {
  readonly said: "ready" | "took" | "lost" | "blocked" | "released";
  readonly atMs: number;
  readonly held?: boolean | null;
}

const { library, url, key } = settings<{ library: HolderName; url: string; key: string }>();
const take = holderOf(library, url);
let held: Held | null = null;

function say(said: HolderWord["said"], rest: object = {}): void {
  process.stdout.write(`${JSON.stringify({ said, atMs: monoMs(), ...rest })}\n`);
}

async function obey(order: HolderOrder): Promise<void> {
  if (order.do === "take") {
    held = await take(key, order.ttlMs, () => say("lost"));
    say("took");
  } else if (order.do === "release") {
    await held?.release().catch(() => {});
    say("released");
  } else {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, order.ms);
    say("blocked", { held: held?.held() ?? null });
  }
}

process.on("unhandledRejection", () => {});
createInterface({ input: process.stdin }).on("line", (line) => void obey(JSON.parse(line) as HolderOrder));
say("ready");
