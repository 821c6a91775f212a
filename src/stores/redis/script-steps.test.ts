// The fast path against a port that answers when the test says so.

import { expect, it } from "vitest";
import type { Io, Request } from "../../core/store.ts";
import { Names } from "./names.ts";
import type { RedisPort, Reply } from "./port.ts";
import { scripts } from "./scripts.generated.ts";
import { ScriptSteps } from "./script-steps.ts";

const io: Io = {
  timeoutMs: 1_000,
  signal: new AbortController().signal,
  sleep: () => Promise.resolve(),
};

const request: Request = {
  keys: ["k"],
  id: "0".repeat(32),
  seq: 1,
  mode: "exclusive",
  permits: 1,
  limit: 1,
  ttlMs: 1_000,
  graceMs: 100,
  fenceRoom: 1_000,
  keepMs: 0,
  label: "",
  actor: "",
  queue: true,
};

it("forgets an id whose answer comes after its end (P16)", async () => {
  const asked: string[] = [];
  const waiting: ((reply: Reply) => void)[] = [];
  const port: RedisPort = {
    keyPrefix: "",
    send(words) {
      asked.push(words[1] as string);
      return new Promise((resolve) => waiting.push(resolve));
    },
    subscribe: () => Promise.resolve(() => Promise.resolve()),
    close: () => Promise.resolve(),
  };
  const steps = new ScriptSteps({ port, names: new Names("t"), proc: "p".repeat(16), replicas: 0 });
  const fence = "1700000000000000";
  const attempt = steps.attempt(request, 1, () => [2], io);
  await expect.poll(() => asked).toEqual([scripts.quick.sha]);
  const abandoned = steps.end(request, 1, [""], [2], io);
  await expect.poll(() => asked).toEqual([scripts.quick.sha, scripts.end.sha]);
  waiting[1]?.(0);
  await abandoned;
  waiting[0]?.([fence]);
  expect(await attempt).toHaveProperty("granted");
  // An id that is remembered would be released by the fast path.
  void steps.end(request, 1, [fence], [2], io);
  await expect.poll(() => asked.at(-1)).toBe(scripts.end.sha);
  expect(asked).toHaveLength(3);
});
