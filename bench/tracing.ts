// What the channels of docs/guides/observing.md cost: a section on the memory store, where nothing else takes time, with nobody on any
// channel and with a listener on every one; and the comparison alone that a call makes where nobody listens.

import { subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";
import { acquiring, traced } from "../src/core/tracing.ts";
import { createLocks, type Locks } from "../src/index.ts";
import { median, round } from "./lib/stats.ts";

const ROUNDS = 15;
const SECTIONS = 5_000;
const CALLS = 2_000_000;
/** acquire and release. */
const CALLS_PER_SECTION = 2;

const TRACING = ["holdfast:acquire", "holdfast:release", "holdfast:renew"];
const POINTS = ["holdfast:contended", "holdfast:lost", "holdfast:revoked", "holdfast:deadlock"];

const nothing = (): void => {};
const LISTENERS = { start: nothing, end: nothing, asyncStart: nothing, asyncEnd: nothing, error: nothing };

export async function run(): Promise<object> {
  const locks = createLocks("memory:");
  const [silent, heard]: [number[], number[]] = [[], []];
  try {
    await sections(locks);
    // In turns, so that whatever disturbs one disturbs both.
    for (let turn = 0; turn < ROUNDS; turn += 1) {
      silent.push(await sections(locks));
      listen();
      heard.push(await sections(locks));
      leave();
    }
  } finally {
    await locks.close();
  }
  const looks = Array.from({ length: ROUNDS }, () => Math.max(0, CALLS_PER_SECTION * comparison()));
  const wholeNs = median(silent).median;
  const row = (store: string, sectionNs: readonly number[]): object => {
    const { median: middle, low, high } = median(sectionNs);
    const [ns, least, most] = [middle, low, high].map((one) => Math.round(one));
    return { store, ns, least, most, percent: round((100 * middle) / wholeNs) };
  };
  const figures = [
    row("a section, nobody listens", silent),
    row("of it, to see that nobody listens", looks),
    row("a section, a listener on every channel", heard),
  ];
  console.table(figures);
  return { figures };
}

/** ns that each takes. */
async function sections(locks: Locks): Promise<number> {
  const startMs = performance.now();
  for (let count = 0; count < SECTIONS; count += 1) await (await locks.acquire("k")).release();
  return ((performance.now() - startMs) * 1e6) / SECTIONS;
}

function listen(): void {
  for (const name of TRACING) tracingChannel(name).subscribe(LISTENERS);
  for (const name of POINTS) subscribe(name, nothing);
}

function leave(): void {
  for (const name of TRACING) tracingChannel(name).unsubscribe(LISTENERS);
  for (const name of POINTS) unsubscribe(name, nothing);
}

/** ns that a call is longer for asking whether anybody listens. */
function comparison(): number {
  const done = Promise.resolve();
  const call = (): Promise<void> => done;
  const context = (): never => {
    throw new Error("nobody listens");
  };
  const timed = (work: () => unknown): number => {
    const startMs = performance.now();
    for (let count = 0; count < CALLS; count += 1) work();
    return ((performance.now() - startMs) * 1e6) / CALLS;
  };
  const bare = timed(call);
  return timed(() => traced(acquiring, context, call)) - bare;
}
