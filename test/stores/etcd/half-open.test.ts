// A connection that is half open: the server does not answer on it, and a new one works at once.

import { describe, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { startEtcd } from "../../../scripts/servers/etcd.ts";
import { createLocks } from "../../../src/index.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";
import { MOST_UNANSWERED, nextGrant } from "../../support/half-open.ts";

describe("a half-open connection to etcd", () => {
  it("is replaced within 5 s, and costs no lease", async () => {
    const server = await startEtcd({ own: true });
    const proxy = await Proxy.listen({ host: "127.0.0.1", port: server.port });
    const locks = createLocks(`etcd://127.0.0.1:${proxy.port}`);
    try {
      const held = await locks.acquire("held");
      proxy.halfOpen();
      const [meter, startedMs] = [new StallMeter(), performance.now()];
      const { lease, unanswered } = await nextGrant(locks);
      const tookMs = Math.round(performance.now() - startedMs);
      console.log(`half-open: ${unanswered} calls without an answer, grant after ${tookMs} ms`);
      await lease.release();
      expect(unanswered).toBeLessThanOrEqual(MOST_UNANSWERED);
      expect(meter.workingMs()).toBeLessThan(5_000);
      expect(held.held).toBe(true);
      expect(await held.release()).toBe(true);
    } finally {
      await locks.close();
      await proxy.close();
      await server.stop();
    }
  });
});
