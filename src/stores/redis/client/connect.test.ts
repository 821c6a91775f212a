// Clients that redis() cannot use are rejected, with what to give instead.

import { expect, it } from "vitest";
import { memory } from "../../memory/index.ts";
import { createLocks, InvalidArgumentError } from "../../../index.ts";
import { redis, type RedisOptions } from "../index.ts";

/** What the store says about a client on the first call. */
const refusal = (client: object): Promise<unknown> =>
  createLocks(redis({ client } as RedisOptions))
    .tryAcquire("k")
    .catch((error: unknown) => error);

it("rejects other objects, and names the clients that it takes", async () => {
  const error = await refusal(memory());
  expect(error).toBeInstanceOf(InvalidArgumentError);
  expect(String(error)).toMatch(/node-redis .* ioredis .* iovalkey/);
  expect(String(error)).not.toMatch("GLIDE");
});

it("rejects a client of Valkey GLIDE, and says to give the URL", async () => {
  // As GlideClient 2.5 has it. The package is native, so it is not a dependency of these tests.
  const error = await refusal({ customCommand: () => Promise.resolve("OK"), close: () => {} });
  expect(error).toBeInstanceOf(InvalidArgumentError);
  expect(String(error)).toMatch(/GLIDE.*valkey:\/\//);
});
