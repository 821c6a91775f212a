// What operators use: `revoke`, `watch`, `doctor`, `bench`, and flags that come from the environment.

import { appendFileSync, readFileSync, statSync, truncateSync } from "node:fs";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLocks, type Locks } from "../../src/index.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import { variableOf } from "../../src/cli/environment.ts";
import { makeProgram } from "../../src/cli/program.ts";
import { logIn } from "../stores/local/fixture.ts";
import { Sandbox, until } from "./fixture.ts";
import { StallMeter } from "../../src/testing/stall-meter.ts";

let box: Sandbox;
let locks: Locks;
beforeEach(() => {
  box = new Sandbox();
  locks = createLocks(box.store);
});
afterEach(async () => {
  await locks.close();
  await box.close();
});

/** Ten times what it takes. */
const SOON_MS = 5_000;

async function runner(key: string, seconds: number): Promise<ReturnType<Sandbox["start"]>> {
  const running = box.start(["run", key, "--", "sleep", String(seconds)]);
  await until(async () => (await locks.inspect(key)) !== null);
  return running;
}

describe("revoke", () => {
  it("takes the key away: the command is ended at once, and says so", async () => {
    const running = await runner("job", 30);
    const meter = new StallMeter();
    const { code, stdout } = await box.call(["revoke", "job", "--reason", "it hangs", "--yes"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^job is revoked; it is free when its holder releases it, in \S+ at the latest\n$/,
    );
    const ended = await running.ended;
    expect(meter.workingMs()).toBeLessThan(SOON_MS);
    expect(ended.code).toBe(79);
    expect(ended.stderr).toContain("it hangs");
    expect(await locks.inspect("job")).toBeNull();
  });

  it("frees the key at once with --force, and the fence rises", async () => {
    const lease = await locks.acquire("job");
    const { code, stdout } = await box.call(["revoke", "job", "--reason", "x", "--yes", "--force"]);
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/free now/) as string,
    });
    const next = await locks.acquire("job", { wait: "60s" });
    expect(next.fence > lease.fence).toBe(true);
  });

  it("leaves a holder alone that is not the one that was meant", async () => {
    const lease = await locks.acquire("job");
    const other = String(lease.fence - 1n);
    const { code, stderr } = await box.call(["revoke", "job", "--reason", "x", "--yes", "--fence", other]);
    expect(code).toBe(79);
    expect(stderr).toContain(`holds the key with fence ${lease.fence}`);
    expect(await lease.verify()).toBe(true);
  });

  it("of a free key is no error", async () => {
    const { code, stdout } = await box.call(["revoke", "job", "--reason", "x", "--yes"]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "job is free: there is nothing to revoke\n" });
  });

  it("asks for the key again, and revokes only if the answer is the key", async () => {
    const lease = await locks.acquire("job", { label: "dialler" });
    const command = (answer: string): string =>
      `printf '%s\\n' ${answer} | script -qec "${process.execPath} ${box.main} revoke job --reason x" /dev/null`;
    const wrong = await box.spawn("sh", ["-c", command("jab")], { HOLDFAST_STORE: box.store }).ended;
    expect(wrong.stdout).toContain("held by dialler");
    expect(wrong.stdout).toContain("nothing was revoked");
    expect(await lease.verify()).toBe(true);
    const right = await box.spawn("sh", ["-c", command("job")], { HOLDFAST_STORE: box.store }).ended;
    expect(right.stdout).toContain("job is revoked");
    await until(() => lease.signal.aborted);
    expect(lease.held).toBe(false);
  });

  it("without a terminal wants --yes, and always a reason", async () => {
    await locks.acquire("job");
    const asked = await box.run(["revoke", "job", "--reason", "x"]);
    expect(asked).toMatchObject({ code: 64, stderr: expect.stringContaining("--yes") as string });
    const silent = await box.run(["revoke", "job", "--yes"]);
    expect(silent).toMatchObject({ code: 64, stderr: expect.stringContaining("--reason") as string });
  });

  it("tells as JSON what it did", async () => {
    const [one, two] = [
      await locks.acquire("job", { label: "me", mode: "shared" }),
      await locks.acquire("job", { label: "you", mode: "shared" }),
    ];
    const args = ["--reason", "x", "--yes", "--json", "--label", "ann"];
    const { stdout } = await box.call(["revoke", "job", ...args]);
    expect(JSON.parse(stdout)).toMatchObject({
      key: "job",
      outcome: "revoked",
      reason: "x",
      force: false,
      by: "ann",
      at: expect.stringMatching(/^\d{4}-.*Z$/) as string,
      holders: [
        { label: "me", fence: String(one.fence) },
        { label: "you", fence: String(two.fence) },
      ],
    });
    await until(() => one.signal.aborted && two.signal.aborted);
    expect([one.held, two.held]).toEqual([false, false]);
  });
});

describe("watch", () => {
  it("says what changed between two looks, line by line", async () => {
    const lease = await locks.acquire("job", { label: "me" });
    const watching = box.start(["watch", "--every", "50ms"]);
    await watching.says(new RegExp(`job {2}held by me, fence ${lease.fence}`));
    const waiting = locks.acquire("job", { label: "next", within: await locks.acquire("other") });
    await lease.release();
    await watching.says(/job {2}released by me after \S+, fence \d+/);
    await (await waiting).release();
    watching.kill("SIGTERM");
    expect((await watching.ended).code).toBe(0);
  });

  it("is an object per change with --json", async () => {
    const lease = await locks.acquire("job", { label: "me" });
    const { code, stdout } = await box.run(["watch", "--looks", "1", "--json"]);
    expect(code).toBe(0);
    const at = expect.stringMatching(/^\d{4}-.*Z$/) as string;
    expect(JSON.parse(stdout)).toEqual({
      at,
      change: "held",
      key: "job",
      label: "me",
      fence: String(lease.fence),
    });
  });

  it("draws a screen at a terminal and gives it back", async () => {
    await locks.acquire("job", { label: "me" });
    const command = `${process.execPath} ${box.main} watch --looks 2 --every 50ms`;
    const { stdout } = await box.spawn("script", ["-qec", command, "/dev/null"], {
      HOLDFAST_STORE: box.store,
    }).ended;
    expect(stdout).toContain("1 held, 0 waiting");
    expect(stdout).toMatch(/job\s+1\s+\d+/);
    expect(stdout.indexOf("\u001b[?1049h")).toBeLessThan(stdout.indexOf("\u001b[?1049l"));
  });

  it("of a store that is not there is an error, for scripts an object", async () => {
    const { code, stdout, stderr } = await box.run(["watch", "--store", "redis://127.0.0.1:1", "--json"]);
    expect({ code, stdout }).toEqual({ code: 69, stdout: "" });
    expect(JSON.parse(stderr)).toEqual({
      error: { code: "ERR_STORE_UNAVAILABLE", message: expect.stringContaining("ECONNREFUSED") as string },
      exitCode: 69,
    });
  });

  it("of a store that goes away says so once, and when it is back", async () => {
    const lease = await locks.acquire("job");
    const watching = box.start(["watch", "--every", "50ms"]);
    await watching.says(/job {2}held by/);
    const log = logIn(box.file("store"));
    const { size } = statSync(log);
    appendFileSync(log, `\n${"0".repeat(80)}\n`);
    await watching.says(/the store does not answer: \S/);
    truncateSync(log, size);
    await watching.says(/the store answers again after \d/);
    expect(watching.stdout.match(/does not answer/g)).toHaveLength(1);
    await lease.release();
    await watching.says(/job {2}released by/);
  });
});

describe("doctor", () => {
  it("finds nothing wrong with the local store, and says what it promises", async () => {
    const { code, stdout } = await box.call(["doctor"]);
    expect(code).toBe(0);
    // Inside of a container that is a remark.
    expect(stdout.split("\n")[0]).toMatch(/^local:\S+: (nothing found|1 remark)$/);
    expect(stdout).toContain("(G3)");
  });

  it("names a ttl that is too short for the way to the store", async () => {
    const { code, stdout } = await box.run(["doctor", "--ttl", "1ms"]);
    expect(code).toBe(0);
    expect(stdout).toContain("ttl-too-short");
    expect((await box.run(["doctor", "--ttl", "1ms", "--strict"])).code).toBe(1);
  });

  it("ends in 69 for a Redis that evicts, with the fix", async () => {
    const server = await startRedis({
      own: true,
      args: ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"],
    });
    try {
      const { code, stdout } = await box.call(["doctor", "--store", server.url, "--json"]);
      expect(code).toBe(69);
      const { findings } = JSON.parse(stdout) as { findings: { id: string; level: string; fix: string }[] };
      expect(findings[0]).toMatchObject({ id: "eviction", level: "danger" });
      expect(findings[0]?.fix).toContain("noeviction");
      // Whoever has accepted it by name has locks there, and must be able to see them and take them away.
      const owner = createLocks(server.url, { allow: ["eviction"], namespace: "ours" });
      await owner.acquire("job");
      const there = ["--store", server.url, "--namespace", "ours"];
      expect((await box.call(["ls", ...there])).stdout).toMatch(/^KEY.*\njob /);
      expect((await box.call(["revoke", "job", "--reason", "x", "--yes", ...there])).code).toBe(0);
      await owner.close();
    } finally {
      await server.stop();
    }
  });

  it("ends in 69 when there is no store, which is a finding too, and shows no password", async () => {
    const store = "redis://me:secret@127.0.0.1:1/0?replicas=1";
    const { code, stdout, stderr } = await box.call(["doctor", "--store", store, "--json"]);
    expect({ code, stderr }).toEqual({ code: 69, stderr: "" });
    expect(stdout).not.toContain("secret");
    expect(JSON.parse(stdout)).toMatchObject({
      store: "redis://127.0.0.1:1/0",
      callMs: null,
      findings: [
        { id: "unavailable", level: "danger", what: expect.stringContaining("ECONNREFUSED") as string },
      ],
    });
    const words = await box.call(["doctor", "--store", store]);
    expect(words.stdout).toMatch(
      /^redis:\S+: 1 danger\ndanger {2}unavailable: .*\n {2}why: .*\n {2}fix: .*\n$/,
    );
  });
});

describe("schema", () => {
  it("prints the statements of an SQL store under the names of its tables", async () => {
    const { code, stdout } = await box.call(["schema", "postgres", "--table", "locking.mine"]);
    expect(code).toBe(0);
    expect(stdout).toContain("CREATE TABLE IF NOT EXISTS locking.mine_lock (");
    expect(stdout).toContain("CREATE OR REPLACE FUNCTION locking.mine_attempt_2(");
    expect(stdout).toContain("CREATE TABLE IF NOT EXISTS locking.mine_fences (");
    expect(stdout).not.toMatch(/[{][a-z_]+[}]/);
  });

  it("refuses a store without tables by name", async () => {
    const { code, stderr } = await box.call(["schema", "redis"]);
    expect(code).toBe(64);
    expect(stderr).toBe('holdfast: the store must be postgres or mysql, got "redis"\n');
  });
});

describe("bench", () => {
  it("measures three things and leaves nothing", async () => {
    const { code, stdout } = await box.call(["bench", "--for", "100ms", "--json"]);
    expect(code).toBe(0);
    const measured = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { sections: number; p50Ms: number });
    expect(measured).toHaveLength(3);
    for (const { sections, p50Ms } of measured) {
      expect(sections).toBeGreaterThan(0);
      expect(p50Ms).toBeGreaterThan(0);
    }
    expect((await box.call(["ls"])).stdout).toBe("");
  });
});

describe("a password in --store", () => {
  it("is not in the list of processes while the command runs", async () => {
    // A server that never answers keeps the command waiting.
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const running = box.start(["watch", "--store", `redis://me:geheim@127.0.0.1:${port}`]);
    const commandLine = (): string => readFileSync(`/proc/${running.pid}/cmdline`, "latin1");
    expect(await until(() => commandLine().startsWith("holdfast watch"))).toBe(true);
    expect(commandLine()).not.toContain("geheim");
    running.kill("SIGKILL");
    await running.ended;
    silent.close();
  });
});

describe("the environment", () => {
  it("stands in for flags, and a flag wins", async () => {
    await locks.acquire("job");
    const env = { HOLDFAST_NO_WAIT: "1", HOLDFAST_BUSY_CODE: "9", HOLDFAST_QUIET: "true" };
    expect(await box.call(["run", "job", "--", "true"], env)).toMatchObject({ code: 9, stderr: "" });
    expect((await box.call(["run", "-E", "8", "job", "--", "true"], env)).code).toBe(8);
  });

  it("switches nothing on with 0, and does not name a child's own run", async () => {
    const env = { HOLDFAST_NO_WAIT: "0", HOLDFAST_RUN_LABEL: "outer", HOLDFAST_LABEL: "told to a child" };
    const { code, stdout } = await box.run(["run", "job", "--", "sh", "-c", "echo $HOLDFAST_LABEL"], env);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "outer\n" });
  });

  it("of a run that it is in does not say whom to revoke", async () => {
    const lease = await locks.acquire("job");
    const told = { HOLDFAST_KEY: "other", HOLDFAST_FENCE: "7", HOLDFAST_LABEL: "x" };
    const { code } = await box.call(["revoke", "job", "--reason", "x", "--yes"], told);
    expect(code).toBe(0);
    await until(() => lease.signal.aborted);
    expect(lease.held).toBe(false);
  });

  it("has a name for every option but what an operator decides each time, which its help says", () => {
    const { commands } = makeProgram({ parsed() {}, ended() {} });
    const missing = commands.flatMap((command) => {
      const shown = command.helpInformation().replace(/\s+/g, " ");
      return command.options
        .filter((option) => !shown.includes(`[${variableOf(option)}]`))
        .map((option) => `${command.name()} ${option.long}`);
    });
    // These are decided each time.
    expect(missing).toEqual(["revoke --reason", "revoke --force", "revoke --yes"]);
    expect(commands.map((command) => command.name())).toEqual(
      expect.arrayContaining(["run", "ls", "inspect", "watch", "revoke", "doctor", "bench", "schema"]),
    );
    const words = commands.flatMap(({ options }) => options.map(variableOf));
    for (const told of ["HOLDFAST_KEY", "HOLDFAST_FENCE", "HOLDFAST_LABEL"])
      expect(words).not.toContain(told);
  });

  it("is checked as flags are", async () => {
    const { code, stderr } = await box.call(["run", "job", "--", "true"], { HOLDFAST_AT_LEAST: "5" });
    expect(code).toBe(64);
    expect(stderr).toBe(
      'holdfast: HOLDFAST_AT_LEAST must be a duration with a unit, such as 250ms, 30s, 5m or 1h, got "5"\n',
    );
  });

  it("never revokes: --force, --yes and --reason are on the command line or nowhere", async () => {
    const lease = await locks.acquire("job");
    const env = { HOLDFAST_YES: "1", HOLDFAST_REASON: "x", HOLDFAST_FORCE: "1" };
    expect((await box.call(["revoke", "job"], env)).code).toBe(64);
    expect((await box.run(["revoke", "job", "--reason", "x"], env)).code).toBe(64);
    expect(await lease.verify()).toBe(true);
  });

  it("and options take plain seconds where flock(1) does", async () => {
    await locks.acquire("job");
    const startMs = performance.now();
    expect((await box.call(["run", "-w", "0.5", "--ttl", "5", "job", "--", "true"])).code).toBe(75);
    expect(performance.now() - startMs).toBeGreaterThan(500);
    const { stdout } = await box.call(["doctor", "--json"], { HOLDFAST_TTL: "7" });
    expect(JSON.parse(stdout)).toMatchObject({ ttlMs: 7_000 });
  });
});
