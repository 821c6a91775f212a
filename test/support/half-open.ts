// Connections that are half open: the server does not answer on them, and a new one works at once. A pool of
// such connections must be replaced after two calls without an answer (P13). Counting calls instead of time
// tells the rule from its absence on a slow machine too: without the rule each call wears out one connection.

import { expect, it } from "vitest";
import { Proxy } from "../../faults/proxy.ts";
import { createLocks, type Lease, type Locks } from "../../src/index.ts";
import { StallMeter } from "../../src/testing/stall-meter.ts";

/** As the rule says. */
export const MOST_UNANSWERED = 2;
/** More than a store keeps in its pool. */
const MANY = 8;

export interface HalfOpenSubject {
  readonly port: number;
  /** The URL of the store with its server at another port. */
  url(port: number): string;
}

/** Declares one test per mode. */
export function testHalfOpen(modes: readonly string[], subject: () => HalfOpenSubject): void {
  it.each(modes)(
    "half-open connections are replaced after two calls and within 5 s, mode %s",
    async (mode) => {
      const { port, url } = subject();
      const proxy = await Proxy.listen({ host: "127.0.0.1", port });
      const locks = createLocks(`${url(proxy.port)}?mode=${mode}`);
      try {
        const held = await locks.acquire("held");
        await fillPool(locks);
        proxy.halfOpen();
        const [meter, startedMs] = [new StallMeter(), performance.now()];
        const { lease, unanswered } = await nextGrant(locks);
        const tookMs = Math.round(performance.now() - startedMs);
        console.log(`half-open, ${mode}: ${unanswered} calls without an answer, grant after ${tookMs} ms`);
        expect(unanswered).toBeLessThanOrEqual(MOST_UNANSWERED);
        expect(meter.workingMs()).toBeLessThan(5_000);
        await lease.release();
        // A session lock ends with its connection.
        if (mode === "table") expect(await held.release()).toBe(true);
      } finally {
        await locks.close();
        await proxy.close();
      }
    },
  );
}

/** So that as many connections as possible rest in the pool. */
async function fillPool(locks: Locks): Promise<void> {
  const many = await Promise.all(Array.from({ length: MANY }, (_none, at) => locks.acquire(`many:${at}`)));
  await Promise.all(many.map((lease) => lease.release()));
}

/** One call after another until one of them is answered. */
export async function nextGrant(
  locks: Locks,
): Promise<{ readonly lease: Lease; readonly unanswered: number }> {
  for (let unanswered = 0; ; unanswered += 1) {
    const lease = await locks.tryAcquire(`next:${unanswered}`).catch(() => null);
    if (lease !== null) return { lease, unanswered };
  }
}
