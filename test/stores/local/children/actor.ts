// A process that does what it is told, one command per line, and answers each with one line of JSON.

import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Grant, Request } from "../../../../src/core/store.ts";
import { local } from "../../../../src/stores/local/index.ts";
import { nodeSystem } from "../../../../src/system/node.ts";
import { plainIo, request, waitFor } from "../fixture.ts";

type Command = (key: string, more: string, last: string) => Promise<object>;

const dir = process.argv[2];
const description = local(dir === undefined || dir === "" ? {} : { dir });
const env = { namespace: "test", system: nodeSystem, allow: [] };
const held = new Map<string, { asked: Request; grant: Grant }>();

function readCounter(path: string): [number, bigint] {
  const [count, fence] = existsSync(path) ? readFileSync(path, "utf8").split(" ") : ["0", "0"];
  return [Number(count), BigInt(fence as string)];
}

function say(answer: object): void {
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

async function main(): Promise<void> {
  const store = await description.open(env).catch((error: Error & { code?: string }) => {
    say({ refused: error.code, message: error.message });
    process.exit(1);
  });
  const commands: Record<string, Command> = {
    async take(key, label) {
      const asked = request(key, { queue: false, label: label === "" ? "actor" : label });
      const answer = await store.attempt(asked, plainIo());
      if ("granted" in answer) held.set(key, { asked, grant: answer.granted });
      return { take: Object.keys(answer)[0] };
    },
    async wait(key) {
      const asked = request(key);
      const grant = await waitFor(store, asked, 60_000);
      held.set(key, { asked, grant });
      return { granted: String(grant.fences[0]), atMs: nodeSystem.monoMs() };
    },
    async release(key) {
      const one = held.get(key);
      if (one === undefined) return { release: "never held" };
      held.delete(key);
      const atMs = nodeSystem.monoMs();
      return {
        release: await store.release(one.asked, null, { lastFences: one.grant.fences }, plainIo()),
        atMs,
      };
    },
    /** A child that inherits the life of this process. */
    async child(seconds) {
      const fd = description.lifeline();
      const process = spawn("sleep", [seconds], { stdio: ["ignore", "ignore", "ignore", fd ?? "ignore"] });
      return { pid: process.pid };
    },
    /**
     * Adds to a plain file under the lock: an addition is lost if two are ever inside. Fences must only grow.
     */
    async count(key, times) {
      const counter = `${dir}/counter`;
      let [count, fence] = [0, 0n];
      for (let i = 0; i < Number(times); i += 1) {
        const asked = request(key);
        const grant = await waitFor(store, asked, 60_000);
        [count, fence] = readCounter(counter);
        if ((grant.fences[0] as bigint) <= fence) return { error: "a fence did not grow" };
        await plainIo().sleep(0);
        writeFileSync(counter, `${count + 1} ${grant.fences[0]}`);
        await store.release(asked, null, { lastFences: grant.fences }, plainIo());
      }
      return { counted: Number(times) };
    },
    /** Takes and frees the key without a pause, with this ttl. */
    async spin(key, ms, ttl) {
      let spun = 0;
      const lease = ttl === "" ? {} : { ttlMs: Number(ttl), graceMs: Number(ttl) / 4 };
      for (const endMs = nodeSystem.monoMs() + Number(ms); nodeSystem.monoMs() < endMs; spun += 1) {
        const asked = request(key, lease);
        const grant = await waitFor(store, asked, 60_000);
        await store.release(asked, null, { lastFences: grant.fences }, plainIo());
      }
      return { spun };
    },
    /** The ids of what `check` finds. */
    async check() {
      return { found: (await store.check(plainIo(20_000))).map(({ id }) => id) };
    },
    async close() {
      await store.close();
      return { closed: true };
    },
  };
  say({ ready: process.pid });
  for await (const line of createInterface(process.stdin)) {
    const [command, key, more, last] = JSON.parse(line) as [string, string?, string?, string?];
    const run = commands[command] as Command;
    // Not awaited: a wait must not keep the next command from being heard.
    void run(key ?? "", more ?? "", last ?? "").then(say, (error: Error & { code?: string }) =>
      say({ error: error.code ?? error.name, message: error.message }),
    );
  }
}

void main();
