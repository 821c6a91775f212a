// Goes through the life of a store, and sends itself a signal before or after the nth call of the file
// system: open, take, renew, release, enough changes to replace the log, close. It prints one line of JSON per
// grant, and at the end how many calls there were.

import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { local } from "../../../../src/stores/local/index.ts";
import { nodeSystem } from "../../../../src/system/node.ts";
import { plainIo, request, waitFor } from "../fixture.ts";

const CALLS = [
  ...["closeSync", "fchmodSync", "fstatSync", "linkSync", "lstatSync", "mkdirSync", "openSync"],
  ...[
    "readdirSync",
    "readFileSync",
    "readSync",
    "renameSync",
    "rmdirSync",
    "statSync",
    "unlinkSync",
    "writeSync",
  ],
] as const;
/** Twenty of these fill a log. */
const LONG_LABEL = "l".repeat(60_000);
const CHANGES = 20;
const TTL_MS = 400;
const GRACE_MS = 100;

const [dir = "", when = "", signal = "", at = "0"] = process.argv.slice(2);
let calls = 0;
let isCounting = false;

function patch(): void {
  const target = fs as unknown as Record<string, (...args: unknown[]) => unknown>;
  for (const name of CALLS) {
    const real = target[name] as (...args: unknown[]) => unknown;
    target[name] = (...args) => {
      if (!isCounting) return real(...args);
      calls += 1;
      const isHere = calls === Number(at);
      if (isHere && when === "before") process.kill(process.pid, signal);
      try {
        return real(...args);
      } finally {
        if (isHere && when === "after") process.kill(process.pid, signal);
      }
    };
  }
  syncBuiltinESMExports();
}

function say(line: object): void {
  fs.writeSync(1, `${JSON.stringify(line)}\n`);
}

async function main(): Promise<void> {
  patch();
  isCounting = true;
  const store = await local({ dir }).open({ namespace: "test", system: nodeSystem, allow: [] });
  for (let i = 0; i < CHANGES; i += 1) {
    const asked = request("k", { ttlMs: TTL_MS, graceMs: GRACE_MS, label: LONG_LABEL });
    let sentMs = nodeSystem.monoMs();
    const grant = await waitFor(store, asked, 60_000, () => (sentMs = nodeSystem.monoMs()));
    const answeredMs = nodeSystem.monoMs();
    let endMs = sentMs + grant.validMs;
    if (i === 0) {
      const renewedAtMs = nodeSystem.monoMs();
      const item = {
        request: asked,
        cookie: null,
        ttlMs: TTL_MS,
        lastFences: grant.fences,
        label: LONG_LABEL,
      };
      const [answer] = await store.renew([item], plainIo());
      if (answer?.state === "renewed") endMs = renewedAtMs + answer.validMs;
    }
    // The holder believes until it asks for the release, and never longer than its window.
    endMs = Math.min(endMs, nodeSystem.monoMs());
    isCounting = false;
    if (answeredMs < endMs) say({ fence: String(grant.fences[0]), answeredMs, endMs });
    isCounting = true;
    await store.release(asked, null, { lastFences: grant.fences }, plainIo());
  }
  await store.close();
  isCounting = false;
  say({ calls });
}

void main();
