// A foreign value in the place of one of many records, on every node.

import { afterAll, beforeAll, expect, it } from "vitest";
import { expectOthersRenewed, HEALTHY } from "../../support/damaged-neighbour.ts";
import { World } from "./fixture.ts";

const world = new World(3);
const { masters } = world;

beforeAll(() => masters.start());
afterAll(async () => {
  await world.closeAll();
  await masters.stop();
});

it.each([
  ["a text", (name: string) => ["SET", name, "somebody else's"]],
  ["another type", (name: string) => ["RPUSH", name, "a"]],
])("%s under one key costs no other lease its renewal (P17, P19)", async (_what, damage) => {
  const namespace = world.name();
  const locks = world.locks({ namespace, ttl: "6s" });
  await expectOthersRenewed(locks, async (key) => {
    for (const node of masters.ports.keys()) {
      const name = `${namespace}:{${key}}`;
      expect(await masters.ask(node, "DEL", name)).toBe(1);
      await masters.ask(node, ...damage(name));
    }
    const listed: string[] = [];
    for await (const { key: held } of locks.list()) listed.push(held);
    expect(listed).toHaveLength(HEALTHY);
    await expect(locks.inspect(key)).rejects.toThrow(/holdfast did not write/);
  });
});
