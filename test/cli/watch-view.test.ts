// The screen of `watch`: what is on it, and that it never has more lines or columns than the terminal.

import { describe, expect, it } from "vitest";
import { LockDiff } from "../../src/cli/lock-diff.ts";
import { formatEvent, type Outage, renderScreen } from "../../src/cli/watch-view.ts";
import { redactUrl } from "../../src/cli/format.ts";
import type { LockInfo } from "../../src/index.ts";

const AT = new Date(2026, 0, 2, 3, 4, 5);

function lock(key: string, waiters: number): LockInfo {
  const holder = {
    label: "web1:4711",
    mode: "exclusive",
    permits: 1,
    fence: 7n,
    heldMs: 950,
    remainingMs: 30_000,
  };
  const waiter = { label: "web2:815", mode: "exclusive", permits: 1, waitedMs: 5 };
  return {
    key,
    limit: 1,
    holders: [holder],
    waiters: Array.from({ length: waiters }, () => waiter),
  } as LockInfo;
}

function drawn(count: number, rows: number, outage: Outage | null = null): string[] {
  const diff = new LockDiff();
  const locks = Array.from({ length: count }, (_none, at) => lock(`key ${at}`, at));
  diff.update(locks);
  return renderScreen(AT, locks, diff, { rows, columns: 60 }, outage).split("\n");
}

describe("the screen of watch", () => {
  it("shows the most active keys first, names the hot keys, and counts what has no room", () => {
    const lines = drawn(20, 10);
    expect(lines).toHaveLength(10);
    expect(lines[0]).toBe("03:04:05  20 held, 190 waiting   (Ctrl-C to leave)");
    expect(lines[2]).toMatch(/^"key 19" +1 +7 +950ms +30\.0s +19 /);
    expect(lines[8]).toBe("and 14 more");
    expect(lines[9]).toBe('hot: "key 19", "key 18", "key 17", "key 16", "key 15"');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(60);
  });

  it("keeps the last list and says since when the store has not answered", () => {
    const lines = drawn(20, 10, { since: new Date(2026, 0, 2, 3, 4, 1), reason: "connect ECONNREFUSED" });
    expect(lines).toHaveLength(10);
    expect(lines[1]).toBe("no answer since 03:04:01: connect ECONNREFUSED");
  });

  it("says so when there is nothing", () => {
    expect(drawn(0, 24)).toEqual([
      "03:04:05  0 held, 0 waiting   (Ctrl-C to leave)",
      "nothing is held or waited for",
    ]);
  });
});

describe("lines of watch", () => {
  it("tell of revocations and of the store", () => {
    const outage = {
      change: "unreachable",
      error: { code: "ERR_STORE_UNAVAILABLE", message: "gone\u0007" },
    } as const;
    expect(formatEvent(AT, outage)).toBe(String.raw`03:04:05  the store does not answer: gone\u{7}`);
    expect(formatEvent(AT, { change: "reachable", unreachableMs: 7_000 })).toBe(
      "03:04:05  the store answers again after 7.0s",
    );
    expect(formatEvent(AT, { change: "revoked", key: "k", label: "me", reason: "it hangs" })).toBe(
      '03:04:05  k  revoked from me: "it hangs"',
    );
  });
});

describe("the URL of a store", () => {
  it("is shown without login and options", () => {
    expect(
      [
        "redis://me:se%40cret@h:1/0?replicas=1",
        "mysql://a:b@h1,h2/db",
        "redis+sentinel://:pw@h1:1,h2:2/name?sentinelPassword=a@b",
        "local:/var/lib/locks",
        "local:",
        "etcd://[::1]:2379,h",
      ].map(redactUrl),
    ).toEqual([
      "redis://h:1/0",
      "mysql://h1,h2/db",
      "redis+sentinel://h1:1,h2:2/name",
      "local:/var/lib/locks",
      "local:",
      "etcd://[::1]:2379,h",
    ]);
  });
});
