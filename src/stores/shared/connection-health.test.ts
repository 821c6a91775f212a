// When a connection counts as silent, in virtual time.

import { beforeEach, describe, expect, it } from "vitest";
import { VirtualSystem } from "../../testing/virtual-system.ts";
import { ConnectionHealth } from "./connection-health.ts";

let system: VirtualSystem;
let health: ConnectionHealth;

beforeEach(() => {
  system = new VirtualSystem();
  health = new ConnectionHealth(system);
});

describe("a connection is silent", () => {
  it("after two calls in a row without any answer", async () => {
    health.sent(2_000);
    await system.advance(2_000);
    expect(health.isSilent).toBe(false);
    health.sent(2_000);
    await system.advance(1_999);
    expect(health.isSilent).toBe(false);
    await system.advance(1);
    expect(health.isSilent).toBe(true);
  });

  it("also when both calls were sent together", async () => {
    health.sent(1_000);
    health.sent(1_000);
    await system.advance(999);
    expect(health.isSilent).toBe(false);
    await system.advance(1);
    expect(health.isSilent).toBe(true);
  });

  it("not because of short timeouts alone", async () => {
    health.sent(50);
    health.sent(50);
    await system.advance(499);
    expect(health.isSilent).toBe(false);
    await system.advance(1);
    expect(health.isSilent).toBe(true);
  });

  it("after calls without a timeout of their own", async () => {
    health.sent();
    health.sent();
    await system.advance(2_000);
    expect(health.isSilent).toBe(true);
  });
});

describe("a connection is not silent", () => {
  it("while something is answered between two calls without an answer", async () => {
    health.sent(1_000);
    await system.advance(1_000);
    const answered = health.sent(1_000);
    await system.advance(10);
    health.answered(answered);
    health.sent(1_000);
    await system.advance(1_000);
    expect(health.isSilent).toBe(false);
    health.sent(1_000);
    await system.advance(1_000);
    expect(health.isSilent).toBe(true);
  });

  it("while the server gives other signs of life", async () => {
    health.sent(1_000);
    health.sent(1_000);
    await system.advance(500);
    health.heard();
    await system.advance(10_000);
    expect(health.isSilent).toBe(false);
  });

  it("when its calls failed, or nobody used it", async () => {
    const calls = [health.sent(1_000), health.sent(1_000)];
    await system.advance(1_000);
    for (const call of calls) health.failed(call);
    expect(health.isSilent).toBe(false);
    await system.advance(100_000);
    expect(health.isSilent).toBe(false);
    expect(health.isIdle).toBe(true);
  });

  it("after it was replaced", async () => {
    health.sent(1_000);
    health.sent(1_000);
    await system.advance(1_000);
    health.reset();
    expect(health.isSilent).toBe(false);
  });
});

describe("watch", () => {
  it("counts an answer and an error of the server as signs of life", async () => {
    for (const run of [() => Promise.resolve(1), () => Promise.reject(new Error("NOSCRIPT"))]) {
      health.sent(1_000);
      await system.advance(1_000);
      await health.watch(1_000, run).catch(() => {});
      health.sent(1_000);
      await system.advance(1_000);
      expect(health.isSilent).toBe(false);
      health.reset();
    }
  });

  it("counts a call that is never answered", async () => {
    void health.watch(1_000, () => new Promise(() => {}));
    void health.watch(1_000, () => new Promise(() => {}));
    await system.advance(1_000);
    expect(health.isSilent).toBe(true);
  });
});

it("spreads reconnections over a tenth of a second", () => {
  const pauses = Array.from({ length: 100 }, () => health.reconnectPauseMs);
  expect(Math.min(...pauses)).toBeGreaterThanOrEqual(0);
  expect(Math.max(...pauses)).toBeLessThan(100);
  expect(new Set(pauses).size).toBeGreaterThan(50);
});
