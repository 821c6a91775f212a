// When the answers of plain locks on Redis are told. What the script does is tried on servers.

import { expect, it } from "vitest";
import { Quick } from "./quick.ts";
import type { RedisPort, Reply } from "./port.ts";
import { nodeSystem } from "../../system/node.ts";
import { io as patient, request } from "../../../test/support/store-calls.ts";

/** As core lends it: nothing to wait for is a turn of the loop. */
const io = { ...patient, sleep: () => nodeSystem.yield() };

/** Answers nothing until it is told to, and then all that it was asked. */
class Server implements RedisPort {
  readonly keyPrefix = "";
  readonly asked: { readonly size: number; answer(): void; fail(): void }[] = [];

  send(words: readonly string[]): Promise<Reply> {
    const size = Number(words[2]);
    return new Promise((resolve, reject) => {
      const answer = (): void => resolve(Array.from({ length: size }, () => "1"));
      this.asked.push({ size, answer, fail: () => reject(new Error("the connection is lost")) });
    });
  }

  subscribe(): Promise<() => Promise<void>> {
    return Promise.reject(new Error("nobody listens here"));
  }

  async close(): Promise<void> {}
}

async function askedBy(
  tasks: number,
): Promise<{ server: Server; told: () => number; all: Promise<unknown> }> {
  const server = new Server();
  const quick = new Quick(server, "0123456789abcdef");
  let told = 0;
  const count = (): void => void (told += 1);
  const one = (_none: unknown, at: number): Promise<void> =>
    quick.take(`k${at}`, request(`k${at}`), at + 1, io).then(count, count);
  const all = Promise.all(Array.from({ length: tasks }, one));
  await nodeSystem.yield();
  return { server, told: () => told, all };
}

it("answers that come together are told one batch per turn of the loop", async () => {
  const { server, told, all } = await askedBy(40);
  expect(server.asked.map(({ size }) => size)).toEqual([16, 16, 8]);
  for (const batch of server.asked) batch.answer();
  const seen = [];
  while (told() < 40) {
    await nodeSystem.yield();
    seen.push(told());
  }
  expect(seen).toEqual([16, 32, 40]);
  await all;
});

it("an answer that comes alone is told at once, and so is one that comes after the others were told", async () => {
  const { server, told } = await askedBy(17);
  const [first, second] = server.asked;
  first?.answer();
  await nodeSystem.yield();
  expect(told()).toBe(16);
  await nodeSystem.yield();
  second?.answer();
  for (let turns = 0; turns < 5; turns += 1) await Promise.resolve();
  expect(told()).toBe(17);
});

it("a batch that fails is told, whatever becomes of the others", async () => {
  const { server, told, all } = await askedBy(40);
  server.asked[1]?.fail();
  await nodeSystem.yield();
  expect(told()).toBe(16);
  server.asked[2]?.answer();
  server.asked[0]?.answer();
  await all;
  expect(told()).toBe(40);
});
