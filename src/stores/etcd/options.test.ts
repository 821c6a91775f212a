// What `etcd()` takes, how its failures are named, and which servers are found to be old, before any server
// is asked.

import { describe, expect, it } from "vitest";
import { findings, hasLeaseBugs, rejectOldVersion } from "./health.ts";
import { etcdError, isFull, isLeaseGone, wasRejected } from "./errors.ts";
import { etcd, etcdByUrl } from "./index.ts";
import { secondsFor } from "./leases.ts";
import { CORRUPT, NOSPACE } from "./protocol/messages.ts";
import { FENCE_ROOM, fenceOf } from "./record.ts";

describe("etcd()", () => {
  it("refuses options that it does not know, none, both, and URLs of something else (P17)", () => {
    const wrong: readonly object[] = [
      {},
      { url: "etcd://h", endpoints: ["h"] },
      { hosts: ["h"] },
      { url: "http://h" },
      { url: "etcd:h" },
      { url: "etcd://" },
      { url: "etcd://h/path" },
      { url: "etcd://h?order=random" },
      { url: "etcd://h?replicas=2" },
      { url: "etcd://h,,i" },
      { url: "etcd://h:port" },
      { endpoints: ["http://h:1"] },
      { endpoints: ["h"], order: "none" },
      { endpoints: ["h"], user: "u" },
      { endpoints: [] },
      { endpoints: "h:2379" },
      { endpoints: ["h"], tls: "yes" },
      { endpoints: ["h"], user: 5, password: "p" },
      { endpoints: ["h"], credentials: { user: "u", password: "p" } },
      { url: "etcd://u:p@h", credentials: () => ({ token: "t" }) },
      { url: 5 },
    ];
    for (const options of wrong) {
      expect(() => etcd(options), JSON.stringify(options)).toThrow(
        expect.objectContaining({ code: "ERR_LOCK_ARGUMENT" }) as Error,
      );
    }
  });

  it("names the wrong object in the place of a channel or of client options (P17)", () => {
    const channel = { createCall() {}, getConnectivityState() {}, getTarget: () => "dns:h:1" };
    expect(etcd({ channel, user: "u", password: "p" }).name).toBe("etcd");
    expect(etcd({ endpoints: ["h"], clientOptions: { interceptors: [], "grpc.x": 1 } }).name).toBe("etcd");
    const wrong: readonly (readonly [object, RegExp])[] = [
      [{ channel: {} }, /^channel must be a Channel of @grpc\/grpc-js, got an object$/],
      [{ channel: new Map() }, /^channel must be .*, got an instance of Map$/],
      [{ channel: null }, /^channel must be .*, got null$/],
      [{ channel, endpoints: ["h"] }, /^etcd\(\) takes one of url, endpoints and channel$/],
      [{ channel, tls: true }, /without clientOptions and tls/],
      [{ url: "etcd://h", clientOptions: new Map() }, /^clientOptions must be .*, got an instance of Map$/],
      [{ url: "etcd://h", clientOptions: { host: "h" } }, /got the option "host"$/],
      [{ url: "etcd://h", clientOptions: { channelOverride: channel } }, /use etcd\(\{ channel \}\)$/],
      [{ clientOptions: {} }, /^etcd\(\) takes one of url, endpoints and channel$/],
    ];
    for (const [options, message] of wrong) expect(() => etcd(options)).toThrow(message);
  });

  it("takes one host or many, with port or without, and either order", () => {
    for (const url of [
      "etcd://h",
      "etcd://h:2379,i:1/",
      "etcds://u:p%40@h,[::1]:2379",
      "etcd://h?order=fifo",
    ])
      expect(etcdByUrl(url).guarantees.order, url).toBe("fifo");
    expect(etcdByUrl("etcd://h?order=exclusive").guarantees.order).toBe("none");
    expect(etcd({ endpoints: ["h"], order: "exclusive" }).guarantees.order).toBe("none");
  });

  it("never shows a URL, which may hold a password", () => {
    expect(() => etcd({ url: "etcd://user:secret@h:x/y" })).toThrow(/^(?!.*secret).*$/s);
  });
});

describe("errors of etcd", () => {
  const error = (code: number, details: string): Error =>
    Object.assign(new Error(`${code} ${details}`), { code, details });

  it("have a name, and say whether the same call may succeed later (P17)", () => {
    const retryable = (details: string): boolean => etcdError(error(14, details), "x").retryable;
    for (const details of [
      "etcdserver: no leader",
      "etcdserver: leader changed",
      "etcdserver: request timed out",
      "etcdserver: mvcc: database space exceeded",
      "No connection established",
    ])
      expect(retryable(details), details).toBe(true);
    for (const details of ["etcdserver: permission denied", "etcdserver: too many operations in txn request"])
      expect(retryable(details), details).toBe(false);
  });

  it("show the error of the socket, not the words of gRPC around it", () => {
    const details =
      "No connection established. Last error: Error: connect ECONNREFUSED 10.0.0.1:2379. Resolution note: ";
    const shown = etcdError(error(14, details), "be opened");
    expect(shown.message).toMatch(/^etcd could not be opened: connect ECONNREFUSED 10\.0\.0\.1:2379( \(|$)/);
    expect(shown.retryable).toBe(true);
  });

  it("tell what was certainly not carried out from what may have been", () => {
    expect(wasRejected(error(5, "etcdserver: requested lease not found"))).toBe(true);
    expect(wasRejected(error(8, "etcdserver: mvcc: database space exceeded"))).toBe(true);
    for (const code of [1, 2, 4, 13, 14]) expect(wasRejected(error(code, "x")), String(code)).toBe(false);
    expect(wasRejected(new Error("x"))).toBe(false);
    expect(isLeaseGone(error(5, "etcdserver: requested lease not found"))).toBe(true);
    expect(isLeaseGone(error(5, "etcdserver: member not found"))).toBe(false);
    expect(isFull(error(8, "etcdserver: mvcc: database space exceeded"))).toBe(true);
  });
});

describe("findings", () => {
  const facts = { version: "3.5.13", dbSize: 1, quota: 0, alarms: [], members: 3, unreachable: [] };

  it("name the versions whose leaders may end leases of their successors", () => {
    for (const version of ["3.4.0", "3.4.23", "3.4.30", "3.5.0", "3.5.12"])
      expect(hasLeaseBugs(version), version).toBe(true);
    for (const version of ["3.4.31", "3.5.13", "3.5.21", "3.6.0", "3.6.0-rc.1", "4.0.0"])
      expect(hasLeaseBugs(version), version).toBe(false);
    expect(() => rejectOldVersion("3.3.27")).toThrow(/3\.4 or later/);
    rejectOldVersion("3.4.0");
  });

  it("are warnings unless they are accepted by name", () => {
    const old = { ...facts, version: "3.4.23" };
    expect(findings(facts, [])).toEqual([]);
    expect(findings(old, [])).toMatchObject([{ id: "old-etcd", level: "warning" }]);
    expect(findings(old, ["old-etcd"])).toMatchObject([{ id: "old-etcd", level: "info" }]);
    const all = findings({ ...facts, alarms: [NOSPACE, CORRUPT], dbSize: 2e9, members: 1 }, []);
    expect(all.map(({ id }) => id)).toEqual(["nospace", "corrupt", "database-size", "one-member"]);
    expect(findings({ ...facts, alarms: null }, [])).toMatchObject([{ id: "alarms-unknown" }]);
  });

  it("go by the quota where the server tells it", () => {
    const size = (dbSize: number, quota: number): string[] =>
      findings({ ...facts, dbSize, quota }, []).map(({ level, what }) => `${level} ${what}`);
    expect(size(2e9, 8e9)).toEqual([]);
    expect(size(90 * 1_024 ** 2, 100 * 1_024 ** 2)).toEqual(["warning the database has 90 MB of 100 MB"]);
    expect(size(2e9, 0)).toEqual(["info the database has 1907 MB of 2048 MB, unless its quota was changed"]);
  });
});

describe("numbers", () => {
  it("of fences fit 64 bits, and a revision that is too large for one is refused (P3)", () => {
    expect(fenceOf(1)).toBe(8_192n);
    expect(fenceOf(2 ** 50 - 1) + BigInt(FENCE_ROOM)).toBe(2n ** 63n - 1n);
    expect(() => fenceOf(2 ** 50)).toThrow(expect.objectContaining({ code: "ERR_STORE_UNSAFE" }) as Error);
  });

  it("of seconds cover the ttl, the grace and a little more", () => {
    expect(secondsFor(200, 50)).toBe(1);
    expect(secondsFor(1_000, 100)).toBe(2);
    expect(secondsFor(30_000, 1_000)).toBe(32);
  });
});
