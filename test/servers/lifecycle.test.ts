// What the starter of servers promises: a server that is stopped leaves nothing, one that cannot start fails loudly,
// none outlives its parent, and a server named by the environment is used as it is.

import { once } from "node:events";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { findProgram, publish } from "../../scripts/servers/packages.ts";
import { redisProgram, startRedis } from "../../scripts/servers/redis.ts";
import { alive, command, firstLine, until } from "../support/processes.ts";
import { Resp } from "../stores/redis/resp.ts";

const VARIABLE = "HOLDFAST_TEST_REDIS";
const before = { ...process.env };
let temporary: string;

// A temporary folder of this file's own, so that what is left behind can be counted.
beforeAll(async () => {
  temporary = await mkdtemp(join(tmpdir(), "holdfast-test-"));
  process.env["TMPDIR"] = temporary;
  await findProgram(redisProgram);
});

afterEach(() => {
  for (const name of [VARIABLE, "PATH"]) {
    if (before[name] === undefined) delete process.env[name];
    else process.env[name] = before[name];
  }
});

afterAll(async () => {
  if (before["TMPDIR"] === undefined) delete process.env["TMPDIR"];
  else process.env["TMPDIR"] = before["TMPDIR"];
  await rm(temporary, { recursive: true });
});

async function folders(): Promise<string[]> {
  return (await readdir(temporary)).filter((name) => name.startsWith("holdfast-redis-"));
}

describe("a server", () => {
  it("that is stopped is gone, with its folder, even when it was frozen", async () => {
    const server = await startRedis({ own: true });
    expect(await folders()).toHaveLength(1);
    server.kill("SIGSTOP");
    await server.stop();
    await server.stop();
    expect(alive(server.pid)).toBe(false);
    expect(await folders()).toEqual([]);
  });

  it("that was killed by a test can be started again on its port with its data", async () => {
    const dataFolder = await mkdtemp(join(temporary, "scratch-"));
    const first = await startRedis({
      own: true,
      dataFolder,
      args: ["--appendonly", "yes", "--appendfsync", "always"],
    });
    const port = first.port;
    const client = await Resp.open(port);
    await client.ask("SET", "kept", "yes");
    first.kill("SIGKILL");
    await first.stop();
    client.close();
    const second = await startRedis({ own: true, dataFolder, port, args: ["--appendonly", "yes"] });
    const again = await Resp.open(port);
    expect(await again.ask("GET", "kept")).toBe("yes");
    again.close();
    await second.stop();
    await rm(dataFolder, { recursive: true });
  });

  it("does not outlive a parent that was killed", async () => {
    const parent = command("start", "redis");
    const url = new URL(await firstLine(parent));
    const client = await Resp.open(Number(url.port));
    const pid = Number(/process_id:(\d+)/.exec(String(await client.ask("INFO", "server")))?.[1]);
    client.close();
    expect(alive(pid)).toBe(true);
    parent.kill("SIGKILL");
    await until(() => !alive(pid));
    await until(async () => (await folders()).length === 0);
  });

  it("of the command runs until the command is interrupted", async () => {
    const parent = command("start", "redis");
    const url = new URL(await firstLine(parent));
    parent.kill("SIGINT");
    expect(await once(parent, "exit")).toEqual([0, null]);
    await expect(Resp.open(Number(url.port))).rejects.toThrow("ECONNREFUSED");
  });
});

describe("a server that cannot start", () => {
  it("fails with the name of the program when there is no such program", async () => {
    const program = { path: "/nowhere/redis-server", tree: null, env: {} };
    await expect(startRedis({ own: true, program })).rejects.toThrow(
      /redis did not start: \/nowhere\/redis-server: .*ENOENT/,
    );
  });

  it("fails with the end of its log when the program gives up", async () => {
    const folder = await mkdtemp(join(temporary, "scratch-"));
    const path = join(folder, "redis-server");
    await writeFile(path, "#!/bin/sh\necho the disk is on fire\nexit 3\n", { mode: 0o755 });
    const starting = startRedis({ own: true, program: { path, tree: null, env: {} } });
    await expect(starting).rejects.toThrow(/exit code 3[^]*the disk is on fire/);
    await rm(folder, { recursive: true });
    expect(await folders()).toEqual([]);
  });

  it("fails with the server's own words when its settings are wrong", async () => {
    await expect(startRedis({ own: true, args: ["--no-such-setting", "1"] })).rejects.toThrow(
      /no-such-setting/,
    );
  });
});

describe("a server given by the environment", () => {
  it("is used, and is not ours to end", async () => {
    const own = await startRedis({ own: true });
    process.env[VARIABLE] = `${own.url}/3`;
    const server = await startRedis();
    expect(server).toMatchObject({ url: `${own.url}/3`, port: own.port, pid: null });
    expect(() => server.kill("SIGKILL")).toThrow(/not ours/);
    await server.stop();
    expect(alive(own.pid)).toBe(true);
    await own.stop();
  });

  it("that does not answer is an error that names the variable", async () => {
    process.env[VARIABLE] = "redis://127.0.0.1:1";
    await expect(startRedis()).rejects.toThrow(
      /127\.0\.0\.1:1, which HOLDFAST_TEST_REDIS names: .*ECONNREFUSED/,
    );
    process.env[VARIABLE] = "nonsense";
    await expect(startRedis()).rejects.toThrow(/HOLDFAST_TEST_REDIS is not a URL/);
  });
});

describe("the program of a server", () => {
  it("is taken from PATH first", async () => {
    const folder = await mkdtemp(join(temporary, "scratch-"));
    await writeFile(join(folder, "some-server"), "#!/bin/sh\n", { mode: 0o755 });
    process.env["PATH"] = `/nowhere:${folder}:${before["PATH"]}`;
    const found = await findProgram({ name: "some-server", packages: ["none"], advice: "none" });
    expect(found).toEqual({ path: join(folder, "some-server"), tree: null, env: {} });
    await rm(folder, { recursive: true });
  });

  it("that two processes unpack at once stays whole: the second keeps what the first put there", async () => {
    const folder = await mkdtemp(join(temporary, "scratch-"));
    for (const name of ["one", "two"]) {
      await mkdir(join(folder, name));
      await writeFile(join(folder, name, "by"), name);
    }
    await publish(join(folder, "one"), join(folder, "tree"));
    await publish(join(folder, "two"), join(folder, "tree"));
    expect((await readdir(folder)).sort()).toEqual(["tree", "two"]);
    await rm(folder, { recursive: true });
  });
});
