// `holdfast dashboard` as a process: where it listens, what it refuses, and how it ends.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Sandbox } from "./fixture.ts";

let box: Sandbox;
beforeAll(() => void (box = new Sandbox()));
afterAll(() => box.close());

const TOKEN = "a token of the tests";

describe("holdfast dashboard", () => {
  it("listens on a free port of the loopback address, prints its URL, and ends at a signal", async () => {
    const running = box.start(["dashboard"]);
    const [, url] = await running.says(/^(http:\/\/127\.0\.0\.1:\d+\/)$/m);
    const page = await fetch(url as string);
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining("<!doctype html>")]);
    const key = await fetch(`${url}key?name=nightly`);
    expect([key.status, await key.text()]).toEqual([200, "null"]);
    running.kill("SIGTERM");
    expect(await running.ended).toMatchObject({ code: 0, stderr: "" });
  });

  it("refuses an address that is not loopback without a token", async () => {
    const { code, stderr } = await box.run(["dashboard", "--listen", "0.0.0.0:0"]);
    expect([code, stderr]).toEqual([
      64,
      expect.stringMatching(/needs --token: it is not a loopback address/),
    ]);
    for (const listen of ["nonsense", "127.0.0.1:99999", ""]) {
      const wrong = await box.run(["dashboard", `--listen=${listen}`]);
      expect([wrong.code, wrong.stderr]).toEqual([
        64,
        expect.stringContaining("--listen must be HOST:PORT, got "),
      ]);
    }
  });

  it("prints a token of its own with --allow-revoke, and never one that was given", async () => {
    const own = box.start(["dashboard", "--allow-revoke"]);
    const [, url, token] = await own.says(/^(http:\/\/127\.0\.0\.1:\d+\/)#token=([\w-]{32})$/m);
    expect((await fetch(`${url}key?name=a`)).status).toBe(401);
    const headers = { authorization: `Bearer ${token}` };
    expect((await fetch(`${url}key?name=a`, { headers })).status).toBe(200);
    own.kill("SIGINT");
    await own.ended;
    const given = box.start(["dashboard", "--allow-revoke"], { HOLDFAST_TOKEN: TOKEN });
    await given.says(/^http:\/\/127\.0\.0\.1:\d+\/$/m);
    given.kill("SIGTERM");
    expect((await given.ended).stdout).not.toContain(TOKEN);
    const short = await box.run(["dashboard", "--token", "short"]);
    expect([short.code, short.stderr]).toEqual([64, expect.stringContaining("at least 16 characters")]);
  });
});
