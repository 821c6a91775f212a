// The records of a node: what a late proposal does to them (P8), what a free key leaves behind (P21), and
// what the version before wrote (P22).

import { afterAll, beforeAll, expect, it } from "vitest";
import type { Request } from "../../../src/core/store.ts";
import { ProposalCodec } from "../../../src/stores/redlock/proposal-codec.ts";
import { scripts } from "../../../src/stores/redlock/scripts.generated.ts";
import { answered } from "../../support/store-calls.ts";
import { World } from "./fixture.ts";

const world = new World(3);
const { masters } = world;
const codec = new ProposalCodec();
const KEY = "k:{records}";
const HEAD = ["push:", "0123456789abcdef", "150"];
const HOUR_MS = 3_600_000;

beforeAll(() => masters.start());
afterAll(async () => {
  await world.closeAll();
  await masters.stop();
});

function request(id: string, queue: boolean): Request {
  const spec = { mode: "exclusive", permits: 1, limit: 1, ttlMs: 20_000, graceMs: 2_000, keepMs: 0 } as const;
  return {
    ...spec,
    keys: ["records"],
    id: id.repeat(32),
    seq: 1,
    queue,
    label: "l",
    actor: "",
    reservedFences: 10,
  };
}

/** What the first node answers to one item, as a node that votes. */
async function ask(item: string): Promise<unknown> {
  const info = (await masters.ask(0, "INFO", "server")) as string;
  const [, run = ""] = /run_id:(\w+)/.exec(info) ?? [];
  await masters.ask(0, "SET", "k:node", `${run}+n60000 0 r0 0 0`);
  const reply = await masters.ask(0, "EVAL", scripts.batch.text, "2", "k:node", KEY, ...HEAD, item);
  return (reply as unknown[])[0];
}

it.each<[string, (proposal: string, fence: number, id: string) => string]>([
  ["ended", (_proposal, fence, id) => codec.end(id, "", fence)],
  ["was withdrawn", (proposal) => codec.withdrawal(proposal)],
])("a proposal that arrives after its request %s is too low (P8)", async (_what, end) => {
  await masters.ask(0, "DEL", KEY);
  const fence = Date.now() * 1_000;
  const late = request("a", true);
  const proposal = codec.proposal(late, fence, fence);
  expect(await ask(end(proposal, fence, late.id))).toBe(0);
  expect(await ask(proposal)).toEqual(["low", String(fence), expect.any(String)]);
  expect(await ask(codec.proposal(request("b", true), fence + 1, fence))).toBe(1);
});

it("a refused proposal without a place in the queue is too low when it arrives again (P8)", async () => {
  await masters.ask(0, "DEL", KEY);
  const fence = Date.now() * 1_000;
  const [holder, hasty] = [request("a", false), request("b", false)];
  const again = codec.proposal(hasty, fence + 100, fence);
  expect(await ask(codec.proposal(holder, fence, fence))).toBe(1);
  expect(await ask(again)).toEqual(expect.arrayContaining(["held"]));
  expect(await ask(codec.end(holder.id, String(fence), fence))).toBe(1);
  expect(await ask(again)).toEqual(["low", String(fence + 100), expect.any(String)]);
});

it("a free key leaves its counter, and nothing else (P21)", async () => {
  const namespace = world.name();
  const locks = world.locks({ namespace });
  await (await locks.acquire("free")).release();
  const records = await Promise.all(
    masters.urls.map((_url, at) => masters.ask(at, "GET", `${namespace}:{free}`)),
  );
  const found = records.filter((record) => record !== null).map((record) => (record as string).trim());
  expect(found.length).toBeGreaterThan(1);
  for (const record of found) expect(record).toMatch(/^hq2c\d{16}$/);
});

it("records of version 0.1 are read: a holder holds, and fences grow above its counter (P22)", async () => {
  const namespace = world.name();
  const locks = world.locks({ namespace });
  await (await locks.acquire("first")).release();
  const counter = Date.now() * 1_000 + HOUR_MS / 4;
  const pack = (key: string, more: string): string =>
    `return redis.call('SET', '${namespace}:{${key}}', 'hq1b' .. cmsgpack.pack(${counter}, {}, {}${more}))`;
  const endsMs = Date.now() + 20_000;
  const holder = `, ('a'):rep(32), 'proc', ${counter}, 0, ${counter}, ${Date.now()}, ${endsMs}, 'old', ''`;
  for (const at of [0, 1, 2]) {
    await masters.ask(at, "EVAL", pack("held", holder), "0");
    await masters.ask(at, "EVAL", pack("free", ""), "0");
  }
  expect(await answered(() => locks.tryAcquire("held"))).toBeNull();
  expect((await locks.inspect("held"))?.holders[0]).toMatchObject({ label: "old" });
  const lease = await locks.acquire("free");
  expect(lease.fence).toBeGreaterThan(BigInt(counter));
});
