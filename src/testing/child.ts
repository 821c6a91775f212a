// The child process of the suite. It takes locks, and the suite kills or stops it meanwhile. Calls and
// replies are JSON lines on stdin and stdout. It exits with its parent. After `close` it exits only if
// nothing keeps it alive (P16).

import { appendFileSync, closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import {
  createLocks,
  type Lease,
  LockError,
  LockLostError,
  type Locks,
  type MultiLease,
  type Store,
} from "../index.ts";
import { nodeSystem } from "../system/node.ts";
import { sleep, USUAL_WAIT_MS } from "./io.ts";
import type { Call, ChildSetup, LeaseReport, Operation, Operations, Reply } from "./child-protocol.ts";

type Handlers = { [O in Operation]: (takes: Operations[O]["takes"]) => Promise<Operations[O]["gives"]> };

const setup = JSON.parse(process.argv[2] ?? "") as ChildSetup;
const locks = await openLocks();
const leases = new Map<string, { lease: MultiLease; lastHeldMs: number }>();
const lines = createInterface({ input: process.stdin });
let closed = false;

async function openLocks(): Promise<Locks> {
  const options = { namespace: setup.namespace, label: setup.label, wait: USUAL_WAIT_MS };
  if ("url" in setup.store) return createLocks(setup.store.url, options);
  const { createStore } = (await import(setup.store.module)) as {
    createStore(...args: readonly string[]): Store;
  };
  return createLocks(createStore(...(setup.store.args ?? [])), options);
}

/**
 * Checks `held` in every turn of the event loop. It reads the clock first, so the lease was still held at
 * that time.
 */
async function watch(entry: { lease: MultiLease; lastHeldMs: number }): Promise<void> {
  for (;;) {
    const nowMs = nodeSystem.monoMs();
    if (!entry.lease.held) return;
    entry.lastHeldMs = nowMs;
    await nodeSystem.yield();
  }
}

function report(as: string): LeaseReport {
  const entry = leases.get(as);
  if (entry === undefined) throw new Error(`there is no lease ${as}`);
  const { lease } = entry;
  const held = lease.held;
  const reason: unknown = lease.signal.reason;
  return {
    fences: Object.fromEntries(lease.keys.map((key) => [key, String(lease.fenceOf(key))])),
    held,
    lost: reason instanceof LockLostError ? reason.reason : null,
    lastHeldMs: entry.lastHeldMs,
    nowMs: nodeSystem.monoMs(),
  };
}

/**
 * A critical section: read, let others run, write. The fixed width lets a kill leave the old number or
 * the new one.
 */
async function raise(lease: Lease, file: string, log: string): Promise<void> {
  appendFileSync(log, `begin ${lease.fence} ${process.pid}\n`);
  const value = Number(readFileSync(file, "utf8"));
  await nodeSystem.yield();
  const handle = openSync(file, "r+");
  writeSync(handle, String(value + 1).padStart(12), 0);
  closeSync(handle);
  appendFileSync(log, `end ${lease.fence} ${process.pid}\n`);
}

const handlers: Handlers = {
  ready: () => Promise.resolve({ pid: process.pid }),
  async acquire({ as, key, options, within }) {
    const outer = within === undefined ? undefined : leases.get(within)?.lease;
    const wish = { ...options, ...(outer === undefined ? {} : { within: outer }) };
    const keys = typeof key === "string" ? [key] : key;
    const entry = { lease: await locks.acquire(keys, wish), lastHeldMs: 0 };
    leases.set(as, entry);
    void watch(entry);
    return report(as);
  },
  once: ({ key, atLeast, options }) =>
    new Promise((resolve, reject) => {
      const inside = new Promise<never>(() => {});
      locks
        .once(key, { ...options, atLeast }, () => {
          resolve({ ran: true });
          return inside;
        })
        .then(({ ran }) => resolve({ ran }), reject);
    }),
  elect: ({ name, options }) =>
    new Promise((resolve, reject) => {
      const lead = (lease: Lease): Promise<never> => {
        resolve({ fence: String(lease.fence) });
        return new Promise(() => {});
      };
      locks.elect(name, options ?? {}, lead).closed.catch(reject);
    }),
  look: ({ as }) => Promise.resolve(report(as)),
  release: async ({ as }) => ({ released: (await leases.get(as)?.lease.release()) ?? false }),
  async count({ key, file, log, times, ttl }) {
    for (let done = 0; done < times; done += 1) {
      await locks.using(key, { ttl, wait: Number.POSITIVE_INFINITY }, (lease) => raise(lease, file, log));
    }
    return { done: times };
  },
  work: ({ key, log, finishMs }) =>
    new Promise((resolve, reject) => {
      const write = (what: string): void => appendFileSync(log, `${what} ${key} ${nodeSystem.monoMs()}\n`);
      const callback = async (lease: Lease): Promise<void> => {
        lease.signal.addEventListener("abort", () => write("notified"));
        resolve({});
        if (finishMs === undefined) await new Promise(() => {});
        await new Promise((term) => process.once("SIGTERM", term));
        await sleep(finishMs ?? 0);
        write("finished");
      };
      locks.using(key, callback).catch(reject);
    }),
  closeOnTerm({ drain }) {
    process.once("SIGTERM", () => void locks.close({ drain }).then(endInput));
    return Promise.resolve({});
  },
  async close() {
    await locks.close();
    closed = true;
    return {};
  },
};

async function answer(call: Call): Promise<Reply> {
  try {
    const handle = handlers[call.operation] as (takes: unknown) => Promise<unknown>;
    return { n: call.n, gives: await handle(call.takes) };
  } catch (error) {
    const code = LockError.is(error) ? error.code : "";
    return { n: call.n, error: { code, message: String(error) } };
  }
}

/** Stops reading calls, so that stdin does not keep this process alive. */
function endInput(): void {
  closed = true;
  lines.close();
  process.stdin.destroy();
}

lines.on("line", (line) => {
  void answer(JSON.parse(line) as Call).then((reply) => {
    process.stdout.write(`${JSON.stringify(reply)}\n`);
    if (closed) endInput();
  });
});
lines.on("close", () => {
  if (!closed) process.exit(1);
});
