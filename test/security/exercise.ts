// Everything that a user of locks does, by two opened stores: acquire, wait, renew, release, inspect, list, revoke, check. What
// could not be done is told step by step, because which right is missing decides which step fails.

import { createLocks, type Lease, type Locks, type Store } from "../../src/index.ts";

export interface Exercised {
  /** Steps that failed, with the reason. */
  readonly failed: readonly string[];
  /** What `check` found. */
  readonly findings: readonly string[];
}

const WAIT_MS = 100_000;
/** Whoever has no right to lock is told at once, however patient. */
const PATIENCE_MS = 100_000;
let keys = 0;

export async function exercise(
  store: string | Store,
  options: object = {},
  waitMs: number = WAIT_MS,
): Promise<Exercised> {
  const [one, two] = [createLocks(store, options), createLocks(store, options)];
  const failed: string[] = [];
  const findings: string[] = [];
  const step = async (name: string, run: () => Promise<unknown>): Promise<void> => {
    try {
      const answer = await run();
      if (answer === false) failed.push(`${name}: false`);
    } catch (error) {
      failed.push(`${name}: ${String((error as { code?: string }).code)} ${(error as Error).message}`);
    }
  };
  try {
    await steps({ one, two, waitMs }, step, findings);
  } finally {
    await Promise.all([one.close(), two.close()]);
  }
  return { failed, findings };
}

type Step = (name: string, run: () => Promise<unknown>) => Promise<void>;

interface Pair {
  readonly one: Locks;
  readonly two: Locks;
  readonly waitMs: number;
}

async function steps({ one, two, waitMs }: Pair, step: Step, findings: string[]): Promise<void> {
  keys += 1;
  const key = `exercise ${keys}`;
  const held: Lease[] = [];
  await step("acquire", async () => held.push(await one.acquire(key, { wait: PATIENCE_MS })));
  const [lease] = held;
  if (lease === undefined) return;
  const next = two.acquire(key, { wait: waitMs });
  next.catch(() => {});
  await step("renew", () => lease.extend("20s"));
  await step("verify", () => lease.verify());
  await step("inspect", async () => (await two.inspect(key))?.holders.length === 1);
  await step("list", async () => (await listed(one)).includes(key));
  await step("release", () => lease.release());
  await step("wait", async () => (await next).held);
  await step("revoke", () => one.revoke(key, { reason: "exercise" }));
  await step("try", async () => (await one.tryAcquire(`${key} other`)) !== null);
  await step("release alone", async () => (await one.tryAcquire(`${key} alone`))?.release());
  if (one.guarantees.kinds.includes("shared"))
    await step("shared", () => shareKey(one, two, `${key} shared`));
  await step("check", async () => findings.push(...(await one.check()).map(({ id }) => id)));
}

async function shareKey(one: Locks, two: Locks, key: string): Promise<boolean> {
  const first = await one.tryAcquire(key, { mode: "shared" });
  const second = await two.tryAcquire(key, { mode: "shared" });
  return (await first?.release()) === true && (await second?.release()) === true;
}

async function listed(locks: Locks): Promise<string[]> {
  const found: string[] = [];
  for await (const { key } of locks.list()) found.push(key);
  return found;
}
