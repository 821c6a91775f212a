// The server side of the dashboard: what it serves, to whom, and that nothing changes without permission.

import { request } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { generatedPage, pageModule } from "../../scripts/dashboard.mjs";
import { readFileSync } from "node:fs";
import { dashboard, type DashboardOptions } from "../../src/dashboard/index.ts";
import type { FeedMessage } from "../../src/dashboard/lock-feed.ts";
import { createLocks, InvalidArgumentError, type Locks } from "../../src/index.ts";
import { Served, TOKEN } from "./fixture.ts";

let locks: Locks;
let served: Served | null = null;
let names = 0;

beforeEach(() => {
  names += 1;
  locks = createLocks(`memory:dashboard-${names}`, { label: "here" });
});

afterEach(async () => {
  await served?.close();
  served = null;
  await locks.close({ drain: 0 });
});

async function serve(options: DashboardOptions = {}): Promise<Served> {
  served = await Served.start(locks, options);
  return served;
}

const withToken = (token: string): RequestInit => ({ headers: { authorization: `Bearer ${token}` } });

/** Messages of the stream until one of them fits. */
async function untilMessage(
  response: Response,
  fits: (message: FeedMessage) => boolean,
): Promise<readonly FeedMessage[]> {
  const seen: FeedMessage[] = [];
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    const events = text.split("\n\n");
    text = events.pop() ?? "";
    for (const event of events.filter((one) => one.startsWith("data: ")))
      seen.push(JSON.parse(event.slice("data: ".length)) as FeedMessage);
    if (seen.some(fits)) break;
  }
  return seen;
}

describe("the dashboard", () => {
  it("serves the page with a policy that runs no inline script, and nothing from elsewhere", async () => {
    const { url } = await serve();
    for (const [name, type] of [
      ["", "text/html"],
      ["app.js", "text/javascript"],
      ["app.css", "text/css"],
    ] as const) {
      const response = await fetch(url + name);
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toContain(type);
      expect(response.headers.get("content-security-policy")).toMatch(
        /default-src 'none'.*script-src 'self';/,
      );
      expect(response.headers.get("content-security-policy")).not.toContain("unsafe");
      const text = await response.text();
      expect(text.match(/(?:src|href)="?https?:|url\(["']?http|@import/g)).toBeNull();
    }
    expect((await fetch(`${url}nothing.js`)).status).toBe(404);
    const mounted = await fetch(`${url}tools/locks`, { redirect: "manual" });
    expect([mounted.status, mounted.headers.get("location")]).toEqual([308, "locks/"]);
  });

  it("has the page that its sources make", () => {
    expect(readFileSync(generatedPage, "utf8"), "run npm run build").toBe(pageModule());
  });

  it("streams what is held and waited for, and then what changes", async () => {
    const { url } = await serve();
    const held = await locks.acquire("a");
    const response = await fetch(`${url}events`);
    const reading = untilMessage(response, (one) => one.type === "change" && one.gone.includes("a"));
    const first = await fetch(`${url}events`);
    const [whole] = (await untilMessage(first, ({ type }) => type === "all")).filter(
      ({ type }) => type === "all",
    );
    expect(whole).toMatchObject({
      set: [{ key: "a", holders: [{ label: "here", fence: String(held.fence) }], waiters: [] }],
    });
    await held.release();
    expect((await reading).at(-1)).toMatchObject({ type: "change", set: [], gone: ["a"] });
  });

  it("asks the store only while somebody reads", async () => {
    let looks = 0;
    const counted = new Proxy(locks, {
      get: (target, name) => {
        if (name === "list") looks += 1;
        const value = Reflect.get(target, name, target) as unknown;
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
    const handle = dashboard(counted);
    const gone = new AbortController();
    await handle(new Request("http://localhost/"));
    expect(looks).toBe(0);
    const response = await handle(new Request("http://localhost/events", { signal: gone.signal }));
    await untilMessage(response, ({ type }) => type === "all");
    gone.abort();
    await expect.poll(() => looks).toBeGreaterThan(0);
    const before = looks;
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(looks - before).toBeLessThanOrEqual(1);
  });

  it("answers only to loopback names without a token: DNS rebinding does not reach it", async () => {
    const { url } = await serve();
    const statusOf = (host: string): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        const ask = request(`${url}key?name=a`, { headers: { host } }, (response) => {
          response.resume();
          resolve(response.statusCode);
        });
        ask.on("error", reject).end();
      });
    expect(await statusOf("evil.example")).toBe(403);
    expect(await statusOf("127.0.0.1.evil.example:80")).toBe(403);
    expect(await statusOf("bad host")).toBe(400);
    expect(await statusOf("localhost:1234")).toBe(200);
    expect(await statusOf("[::1]")).toBe(200);
  });

  it("gives data to nobody without the token, where there is one", async () => {
    const { url } = await serve({ token: TOKEN });
    expect((await fetch(url)).status).toBe(200);
    for (const name of ["events", "key?name=a", "revoke"]) {
      expect((await fetch(url + name)).status).toBe(401);
      expect((await fetch(url + name, withToken("a token of somebody"))).status).toBe(401);
    }
    expect((await fetch(`${url}key?name=a`, withToken(TOKEN))).status).toBe(200);
  });

  it("is read-only unless it was allowed to revoke", async () => {
    const { url } = await serve({ token: TOKEN });
    const held = await locks.acquire("a");
    const body = JSON.stringify({
      key: "a",
      confirm: "a",
      reason: "test",
      fence: String(held.fence),
      force: true,
    });
    expect((await fetch(`${url}revoke`, { ...withToken(TOKEN), method: "POST", body })).status).toBe(405);
    expect(held.held).toBe(true);
    await held.release();
  });

  it("revokes with token, the key typed again, a reason and the fence that was shown", async () => {
    const { url } = await serve({ token: TOKEN, allowRevoke: true });
    const held = await locks.acquire("a");
    const good = { key: "a", confirm: "a", reason: "it hangs", fence: String(held.fence), force: true };
    const post = async (body: object, token: string = TOKEN): Promise<number> =>
      (await fetch(`${url}revoke`, { ...withToken(token), method: "POST", body: JSON.stringify(body) }))
        .status;
    expect(await post(good, "a token of somebody")).toBe(401);
    expect(await post({ ...good, confirm: "A" })).toBe(400);
    expect(await post({ ...good, reason: " " })).toBe(400);
    expect(await post({ ...good, fence: undefined })).toBe(400);
    expect(await post([])).toBe(400);
    expect(await post({ ...good, fence: "1" })).toBe(409);
    expect(held.held).toBe(true);
    expect(await post(good)).toBe(200);
    await expect.poll(() => held.held).toBe(false);
  });

  it("refuses settings that are not safe", () => {
    expect(() => dashboard(locks, { allowRevoke: true })).toThrow(InvalidArgumentError);
    expect(() => dashboard(locks, { token: "short" })).toThrow(/at least 16 characters/);
  });
});
