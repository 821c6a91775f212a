// A client process of a run: a few tasks over one store, at the mercy of its parent. It must never tidy up its own history:
// what it writes down is what it believed at that moment. After `finish` it must end by itself (P16).

import { createLocks } from "../src/index.ts";
import { Random } from "../sim/world/random.ts";
import { BeliefsBook } from "./client/beliefs-book.ts";
import { cheating } from "./client/cheats.ts";
import { probePlans } from "./client/plan.ts";
import { ResourceLink } from "./client/resource-link.ts";
import { Worker } from "./client/worker.ts";
import { Journal, nowMs } from "./journal.ts";
import { LoopWatch } from "./loop-watch.ts";
import type { ClientSetup, FromClient, ToClient } from "./settings.ts";

const OPEN_MS = 120_000;
/** Some tasks end within it, and others are told to stop. */
const DRAIN_MS = 100;

const setup = JSON.parse(process.argv[2] ?? "") as ClientSetup;
const { name } = setup;
const say = (message: FromClient): void => {
  if (process.connected) process.send?.(message);
};
const journal = new Journal(setup.folder, name);
const real = createLocks(setup.url, {
  label: name,
  allow: [...setup.allow],
  ...(setup.graceMs === undefined ? {} : { grace: setup.graceMs }),
});
await opened();
const locks = cheating(setup.cheat, real);
const resource = await ResourceLink.open(setup.resource);
const random = new Random(setup.seed).fork(name);
const finish = new AbortController();
const book = new BeliefsBook(name, journal, (leases) => {
  say({ say: "holding", leases });
  if (leases > 0) blockNow();
});
const { kinds } = real.guarantees;
const worker = new Worker({ name, locks, journal, book, resource, random, kinds, finish: finish.signal });
const watch = new LoopWatch(name, journal, () => book.look());
let tasks: readonly Promise<void>[] = [];
let block: { readonly ms: number; readonly busy: boolean } | null = null;

locks.on("renewed", (event) => book.renewed(`${event.key}@${event.fence}`));

/** Before the first ask, so that none has to pay for it. On a busy machine loading a client alone can take seconds. */
async function opened(): Promise<void> {
  const limitMs = nowMs() + OPEN_MS;
  for (;;) {
    try {
      await real.check();
      return;
    } catch (error) {
      if (nowMs() > limitMs) throw error;
    }
  }
}

/** At the next moment at which something is held; the event loop then stands still. */
function blockNow(): void {
  if (block === null || book.size === 0) return;
  const { ms, busy } = block;
  block = null;
  setImmediate(() => {
    const untilMs = nowMs() + ms;
    journal.write({ type: "paused", at: nowMs(), client: name });
    if (busy) while (nowMs() < untilMs);
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    journal.write({ type: "resumed", at: nowMs(), client: name });
  });
}

/** Every other client closes with its leases in hand and its waits under way. */
async function close(): Promise<void> {
  const abrupt = random.chance(0.5) && !setup.probe;
  if (!abrupt) {
    finish.abort();
    await Promise.all(tasks);
  }
  book.lettingGoOfAll();
  journal.write({ type: "closing", at: nowMs(), client: name });
  await locks.close();
  finish.abort();
  await Promise.all(tasks);
  journal.write({ type: "closed", at: nowMs(), client: name });
  watch.stop();
  resource.close();
  process.disconnect();
}

/** As a program does at SIGTERM: its tasks may finish for a while, and those that do not are told. */
async function shutDown(): Promise<void> {
  journal.write({ type: "closing", at: nowMs(), client: name, drainMs: DRAIN_MS });
  await locks.close({ drain: DRAIN_MS });
  journal.write({ type: "closed", at: nowMs(), client: name });
  finish.abort();
  await Promise.all(tasks);
  watch.stop();
  resource.close();
  process.disconnect();
}

process.once("SIGTERM", () => void shutDown());
process.on("message", (message: ToClient) => {
  if (message.do === "finish") void close();
  else if (message.do === "block") {
    block = message;
    blockNow();
  } else if (setup.probe) {
    tasks = probePlans(kinds).map((plan) => worker.probe(plan));
    void Promise.all(tasks).then(() => close());
  } else tasks = Array.from({ length: setup.tasks }, () => worker.task());
});
process.on("disconnect", () => {
  // The parent is gone: nobody is left to tell.
  if (!finish.signal.aborted) process.exit(1);
});
say({ say: "ready" });
