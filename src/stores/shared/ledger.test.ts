import { expect, test } from "vitest";
import type { Request } from "../../core/store.ts";
import { MemoryServer } from "../memory/server.ts";

const client = { proc: "p", namespace: "n" };

function clock(): { now: number; server: MemoryServer } {
  const state = { now: 0, server: null as unknown as MemoryServer };
  state.server = new MemoryServer({
    monoMs: () => state.now,
    wallMs: () => 1_700_000_000_000 + state.now,
    alive: () => true,
  });
  return state;
}

function request(id: string, more: Partial<Request> = {}): Request {
  const base = {
    keys: ["k"],
    seq: 1,
    mode: "exclusive",
    permits: 1,
    limit: 1,
    ttlMs: 30_000,
    graceMs: 1_000,
    reservedFences: 10_000,
    keepMs: 0,
  } as const;
  return { ...base, id, label: id, actor: id, queue: true, ...more };
}

function fenceOf(server: MemoryServer, of: Request): bigint {
  const { answer } = server.attempt(client, of);
  if (!("granted" in answer)) throw new Error(`not granted: ${JSON.stringify(answer)}`);
  return answer.granted.fences[0] as bigint;
}

test("a renewal never moves an end back: the longer of two under way may have been confirmed first (P2)", () => {
  const { server } = clock();
  const held = request("a");
  server.attempt(client, held);
  const item = { request: held, cookie: null, lastFences: [0n], label: "a" };
  server.renew(client, [{ ...item, ttlMs: 60_000 }]);
  server.renew(client, [{ ...item, ttlMs: 1_000 }]);
  const { answer } = server.inspect(client, "k");
  expect(answer?.holders[0]?.remainingMs).toBeGreaterThanOrEqual(60_000);
});

test("fences do not run ahead of the clock, so they grow even when the record is lost (P3)", () => {
  const state = clock();
  for (let i = 0; i < 5; i += 1) {
    const held = request(`holder ${i}`);
    fenceOf(state.server, held);
    state.now += 10;
    state.server.abandon(client, held);
  }
  const before = fenceOf(state.server, request("last"));
  expect(Number(before)).toBeLessThan((1_700_000_000_000 + state.now) * 1_000 + 100);
});

test("a forced revoke reserves the whole room: who was robbed may still be handing on (P3)", () => {
  const { server } = clock();
  const first = fenceOf(server, request("a"));
  server.revoke(client, "k", { reason: "x", force: true });
  expect(fenceOf(server, request("b"))).toBeGreaterThan(first + 9_999n);
});

test("a forced revoke leaves fences no further ahead of the clock than hand-offs can use (P3)", () => {
  const { now, server } = clock();
  fenceOf(server, request("a", { ttlMs: 3_600_000 }));
  server.revoke(client, "k", { reason: "x", force: true });
  const ahead = Number(fenceOf(server, request("b"))) - (1_700_000_000_000 + now) * 1_000;
  expect(ahead).toBeLessThan(20_000);
});

test("a clock that was set back does not lower the fence that was handed on (P3)", () => {
  const state = clock();
  const held = request("a", { reservedFences: 3_000_000 });
  const first = fenceOf(state.server, held);
  state.now += 1_800;
  const handedOn = first + 1_700_000n;
  state.server.renew(client, [
    { request: held, cookie: null, ttlMs: 30_000, lastFences: [handedOn], label: "a" },
  ]);
  state.now -= 1_750;
  state.server.abandon(client, held);
  expect(fenceOf(state.server, request("b"))).toBeGreaterThan(handedOn);
});

test("an attempt without a place in line has no effect when it arrives a second time after its answer (P8)", () => {
  const { server } = clock();
  const holder = request("a");
  server.attempt(client, holder);
  const tried = request("b", { queue: false });
  expect(server.attempt(client, tried).answer).toHaveProperty("busy");
  server.release(client, holder, { lastFences: [0n] });
  expect(server.attempt(client, tried).answer).toEqual({ ended: true });
  expect(server.inspect(client, "k").answer).toBeNull();
});

test("a dead waiter of another limit is in nobody's way", () => {
  let alive = true;
  const server = new MemoryServer({
    monoMs: () => 0,
    wallMs: () => 1,
    alive: (proc) => proc === "p" || alive,
  });
  const holder = request("a", { limit: 3, permits: 3 });
  server.attempt(client, holder);
  server.attempt({ proc: "doomed", namespace: "n" }, request("b", { limit: 3, permits: 3 }));
  alive = false;
  server.release(client, holder, { lastFences: [0n] });
  expect(server.attempt(client, request("c", { limit: 5 })).answer).toHaveProperty("granted");
});

test("a claim is no longer than the ttl of who is chosen, and its heartbeat follows (P10)", () => {
  const state = clock();
  const holder = request("a");
  state.server.attempt(client, holder);
  const { answer } = state.server.attempt(client, request("b", { ttlMs: 400, graceMs: 50 }));
  expect(answer).toMatchObject({ busy: { againMs: 100 } });
  state.server.release(client, holder, { lastFences: [0n] });
  const [chosen] = state.server.inspect(client, "k").answer?.holders ?? [];
  expect(chosen?.remainingMs).toBe(400 + 50);
});

test("whoever makes the record at which the memory store is cleaned keeps its lease (P1)", () => {
  const { server } = clock();
  const requests = Array.from({ length: 4_100 }, (_none, i) => ({ ...request(`id ${i}`), keys: [`k${i}`] }));
  for (const one of requests) server.attempt(client, one);
  expect(requests.filter((one) => !server.owns(client, one).answer)).toEqual([]);
});
