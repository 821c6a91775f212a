// macOS and Windows as far as they can be faked: the name of the platform, and an uptime of whole seconds
// as on macOS. The packed package runs in a process of its own, with a real Redis.

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { installPacked, type Project } from "../../scripts/packed.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import { imported } from "../../scripts/sizes/measure.ts";
import { builtDir } from "../support/built.ts";

const run = promisify(execFile);
const PLATFORMS = ["darwin", "win32"];
/** Of the clocks together. A boot clock of whole seconds would be ahead by hundreds of milliseconds. */
const ROUNDING_MS = 50;

let dir: string;
let project: Project;
let redis: RunningServer;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "holdfast-platforms-"));
  project = installPacked(builtDir(), dir);
  const client = join(import.meta.dirname, "..", "..", "node_modules", "redis");
  symlinkSync(client, join(project.dir, "node_modules", "redis"));
  redis = await startRedis();
});

afterAll(async () => {
  await redis.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** A module that is loaded first and pretends. */
function pretend(platform: string): string {
  const file = join(dir, `${platform}.mjs`);
  writeFileSync(
    file,
    `import os from "node:os";
     import { syncBuiltinESMExports } from "node:module";
     Object.defineProperty(process, "platform", { value: ${JSON.stringify(platform)} });
     const uptime = os.uptime;
     os.uptime = () => Math.floor(uptime());
     syncBuiltinESMExports();\n`,
  );
  return pathToFileURL(file).href;
}

async function program(platform: string, text: string): Promise<string> {
  const file = join(project.dir, `${platform}-program.mjs`);
  writeFileSync(file, `import { createLocks } from "holdfast";\n${text}`);
  return (await run(process.execPath, ["--import", pretend(platform), file])).stdout;
}

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function command(platform: string, ...args: string[]): Promise<Ended> {
  const main = join(project.installed, "dist", "cli", "main.js");
  const ran = run(process.execPath, ["--import", pretend(platform), main, ...args, "--store", redis.url]);
  return await ran.then(
    (ended) => ({ code: 0, ...ended }),
    (error: Ended) => error,
  );
}

describe.each(PLATFORMS)("on a faked %s", (platform) => {
  it("every subpath is imported, and a key of memory: and of redis has one holder (P1)", async () => {
    const said = await program(
      platform,
      `for (const name of ${JSON.stringify(imported)}) await import(name);
       for (const url of ["memory:", ${JSON.stringify(redis.url)}]) {
         const locks = createLocks(url);
         const lease = await locks.acquire("k");
         console.log(process.platform, lease.held, await locks.tryAcquire("k"), await lease.release());
         await locks.close();
       }\n`,
    );
    expect(said).toBe(`${platform} true null true\n`.repeat(2));
  });

  it("leases of memory: and redis run down no faster than time does (P2)", async () => {
    const said = await program(
      platform,
      `const overrunMs = async (url) => {
         const locks = createLocks(url);
         const lease = await locks.acquire(${JSON.stringify(platform)});
         const startMs = performance.now();
         const remaining = lease.remaining;
         let worstMs = 0;
         // The uptime ticks at least once meanwhile.
         while (performance.now() - startMs < 1_100) {
           const lostMs = remaining - lease.remaining;
           worstMs = Math.max(worstMs, lostMs - (performance.now() - startMs));
           await new Promise((resolve) => setTimeout(resolve, 10));
         }
         await lease.release();
         await locks.close();
         return worstMs;
       };
       const urls = ["memory:", ${JSON.stringify(redis.url)}];
       console.log(JSON.stringify(await Promise.all(urls.map(overrunMs))));\n`,
    );
    for (const ms of JSON.parse(said) as number[]) expect(ms).toBeLessThan(ROUNDING_MS);
  });

  it("the commands that only look work", async () => {
    expect(await command(platform, "ls")).toMatchObject({ code: 0 });
    expect(await command(platform, "inspect", "nobody")).toMatchObject({
      code: 0,
      stdout: "nobody is free\n",
    });
  });

  it("the local store opens, or says what it lacks (P17)", async () => {
    const url = `local:${join(dir, `locks-${platform}`)}`;
    const said = await program(
      platform,
      `const locks = createLocks(${JSON.stringify(url)});
       await locks.acquire("k").catch((error) => console.log(error.code, error.message));
       await locks.close();\n`,
    );
    expect(said).toMatch(/^ERR_LOCK_UNSUPPORTED the local store needs the boot id of this machine/);
  });
});

it("holdfast run on Windows says what it cannot do, and takes no key", async () => {
  const ran = await command("win32", "run", "k", "--", "true");
  expect(ran).toMatchObject({ code: 69, stdout: "" });
  expect(ran.stderr).toMatch(/^holdfast: holdfast run does not work on Windows: .* run it in WSL/);
});
