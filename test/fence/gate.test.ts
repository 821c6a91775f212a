// The gate in memory, and in front of real HTTP servers.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { afterAll, describe, expect, test } from "vitest";
import {
  createLocks,
  InvalidArgumentError,
  type Lease,
  StaleFenceError,
  UnsupportedError,
} from "../../src/index.ts";
import { type Claim, FenceGate, fenceHeader, requireFence } from "../../src/fence/index.ts";

const locks = createLocks("memory:gate-test");
afterAll(() => locks.close());

/** Two leases of one key, the first of them over. */
async function twice(key: string): Promise<[Lease, Lease]> {
  const old = await locks.acquire(key);
  await old.release();
  return [old, await locks.acquire(key)];
}

describe("a gate", () => {
  test("lets fences pass that grow or stay, and no older one, reads included (P4)", async () => {
    const gate = new FenceGate();
    const [old, current] = await twice("a");
    expect(gate.seen("a")).toBeNull();
    gate.pass("a", old);
    gate.pass("a", current);
    gate.pass("a", current.fence);
    const error = catching(() => gate.pass("a", old)) as StaleFenceError;
    expect(error).toBeInstanceOf(StaleFenceError);
    expect([error.fence, error.seen, error.key]).toEqual([old.fence, current.fence, "a"]);
    expect(gate.seen("a")).toBe(current.fence);
    gate.pass("b", 1n);
  });

  test("can start from what was kept elsewhere, and never goes back", () => {
    const gate = new FenceGate();
    gate.remember("a", 10n);
    gate.remember("a", 5n);
    expect(() => gate.pass("a", 9n)).toThrow(StaleFenceError);
    gate.forget("a");
    gate.pass("a", 9n);
  });

  test("is for exclusive leases only (P4)", async () => {
    const gate = new FenceGate();
    const reader = await locks.acquire("r", { mode: "shared" });
    const permit = await locks.acquire("s", { limit: 3 });
    for (const lease of [reader, permit]) expect(() => gate.pass(lease.key, lease)).toThrow(UnsupportedError);
    const both = await locks.acquire(["x", "y"]);
    expect(gate.pass("y", both)).toBe(both.fenceOf("y"));
    expect(() => gate.pass("z", both)).toThrow(InvalidArgumentError);
    await locks.using("again", async () => {
      await locks.using("again", { reentrant: true }, (lease) =>
        expect(gate.pass("again", lease)).toBe(lease.fence),
      );
    });
  });

  test.each([0n, -1n, 2n ** 63n, 5, "5", null, {}])("refuses %s", (fence) => {
    expect(() => new FenceGate().pass("a", fence as bigint)).toThrow(InvalidArgumentError);
  });
});

describe("over HTTP", () => {
  test("a stale fence is refused with 412, no fence with 428, nonsense with 400 (P4)", async () => {
    const gate = new FenceGate();
    const [old, current] = await twice("phone:139 ü");
    const seen: Claim[] = [];
    const handler = requireFence(gate, (_request, claim) => {
      seen.push(claim);
      return new Response("done");
    });
    const ask = async (headers: Record<string, string>): Promise<number> =>
      (await handler(new Request("http://service/", { headers }))).status;
    expect(await ask(fenceHeader(old))).toBe(200);
    expect(await ask(fenceHeader(current))).toBe(200);
    expect(await ask(fenceHeader(old))).toBe(412);
    expect(await ask({})).toBe(428);
    expect(await ask({ ...fenceHeader(old), "Fencing-Token": "1e3" })).toBe(400);
    expect(await ask({ ...fenceHeader(old), "Fencing-Token": "9999999999999999999" })).toBe(400);
    expect(await ask({ ...fenceHeader(old), "Fencing-Key": "%" })).toBe(400);
    expect(seen.map(({ key, fence }) => [key, fence])).toEqual([
      ["phone:139 ü", old.fence],
      ["phone:139 ü", current.fence],
    ]);
    expect(() => seen[0]?.check()).toThrow(StaleFenceError);
  });

  test("a handler that was overtaken is stopped by its own check", async () => {
    const gate = new FenceGate();
    const [old, current] = await twice("k");
    const handler = requireFence(gate, async (_request, claim) => {
      gate.pass("k", current);
      await Promise.resolve();
      claim.check();
      return new Response("wrote");
    });
    const answer = await handler(new Request("http://service/", { headers: fenceHeader(old) }));
    expect(answer.status).toBe(412);
    expect(await answer.json()).toMatchObject({ code: "ERR_FENCE_STALE", seen: String(current.fence) });
  });

  test("the service may say which key protects the resource; other errors are the handler's own", async () => {
    const [, current] = await twice("phone:7");
    const key = (request: Request): string => `phone:${new URL(request.url).pathname.slice(1)}`;
    const handler = requireFence(
      new FenceGate(),
      () => {
        throw new Error("broken");
      },
      { key },
    );
    const headers = fenceHeader(current);
    expect((await handler(new Request("http://service/8", { headers }))).status).toBe(400);
    await expect(handler(new Request("http://service/7", { headers }))).rejects.toThrow("broken");
  });
});

describe("with Express", () => {
  const servers: Server[] = [];
  afterAll(() => servers.forEach((server) => server.close()));

  test("the middleware refuses what is stale before the handler and what was overtaken after it (P4)", async () => {
    const gate = new FenceGate();
    const [old, current] = await twice("phone:139");
    const app = express();
    app.use(requireFence.express(gate));
    app.get("/touch", (request, response) => {
      response.json({ fence: String((request as { fence?: Claim }).fence?.fence) });
    });
    app.get("/slow", (request, response) => {
      gate.pass("phone:139", current);
      (request as { fence?: Claim }).fence?.check();
      response.end();
    });
    app.get("/broken", () => {
      throw new Error("broken");
    });
    app.use(requireFence.expressErrors);
    app.use(((_error, _request, response, _next) =>
      response.status(500).end()) as express.ErrorRequestHandler);
    const server = createServer(app).listen(0, "127.0.0.1");
    servers.push(server);
    await new Promise((resolve) => server.once("listening", resolve));
    const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const ask = (path: string, headers: Record<string, string>): Promise<Response> =>
      fetch(at + path, { headers });
    const first = await ask("/touch", fenceHeader(old));
    expect([first.status, await first.json()]).toEqual([200, { fence: String(old.fence) }]);
    expect((await ask("/slow", fenceHeader(old))).status).toBe(412);
    const stale = await ask("/touch", fenceHeader(old));
    expect([stale.status, await stale.json()]).toEqual([
      412,
      expect.objectContaining({ code: "ERR_FENCE_STALE", seen: String(current.fence) }),
    ]);
    expect((await ask("/touch", fenceHeader(current))).status).toBe(200);
    expect((await ask("/touch", {})).status).toBe(428);
    expect((await ask("/broken", fenceHeader(current))).status).toBe(500);
  });
});

function catching(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  throw new Error("it was not refused");
}
