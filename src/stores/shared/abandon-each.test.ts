import { expect, test } from "vitest";
import type { Io, Request } from "../../core/store.ts";
import { abandonEach } from "./abandon-each.ts";
import { retryWhileUnsent } from "./retry-while-unsent.ts";

const requests = ["a", "b", "c", "d"].map((id) => ({ id, keys: [id] }) as unknown as Request);

function io(): Io {
  return { timeoutMs: 2_000, signal: new AbortController().signal, sleep: () => Promise.resolve() };
}

test("requests that could not be abandoned are given back, and all others are abandoned", async () => {
  const failed = await abandonEach(requests, io(), ({ id }) => {
    return id === "b" ? Promise.reject(new Error("damaged")) : Promise.resolve();
  });
  expect(failed.map(({ id }) => id)).toEqual(["b"]);
});

test("a server that cannot be reached is asked once, however many requests wait (P20)", async () => {
  let tries = 0;
  const connect = (): Promise<void> => {
    tries += 1;
    return Promise.reject(new Error("ECONNREFUSED"));
  };
  const abandoned = abandonEach(
    requests,
    io(),
    (_request, once) => retryWhileUnsent(once, () => 0, connect, { isUnsent: () => true }),
    1,
  );
  await expect(abandoned).rejects.toThrow("ECONNREFUSED");
  expect(tries).toBe(1);
});
