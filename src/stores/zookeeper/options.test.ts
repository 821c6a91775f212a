// What `zookeeper()` takes, and what it says about everything else.

import { expect, it } from "vitest";
import { zookeeper } from "./index.ts";
import { readOptions } from "./options.ts";

it("names the option that is wrong, and never shows a password (P17)", () => {
  const wrong: readonly (readonly [object, RegExp])[] = [
    [{}, /^zookeeper\(\) takes either servers or a url$/],
    [{ servers: ["h"], url: "zookeeper://h" }, /^zookeeper\(\) takes either servers or a url$/],
    [{ hosts: ["h"] }, /has no option "hosts"/],
    [{ servers: "h" }, /^servers must be a list of host:port, got "h"$/],
    [{ servers: [] }, /^servers must be a list of host:port, got \[\]$/],
    [{ servers: ["h:0"] }, /^a server must be host or host:port, got "h:0"$/],
    [{ servers: ["h"], user: "u" }, /a user and a password together/],
    [{ servers: ["h"], user: "u", password: () => "secret" }, /both as strings$/],
    [{ servers: ["h"], user: "a:b", password: "secret" }, /^user must be a name without a colon, got "a:b"$/],
    [{ servers: ["h"], tls: "yes" }, /^tls must be true, false or options of node:tls, got yes$/],
    [{ servers: ["h"], chroot: "locks" }, /^chroot must be a path/],
    [{ servers: ["h"], sessionTimeout: 5 }, /^sessionTimeout must be at least 100 ms, got 5 ms$/],
    [{ url: "zookeeper://u:secret@h/x?timeout=5" }, /knows sessionTimeout, not "timeout"/],
    [{ url: 5 }, /^the URL of a ZooKeeper is zookeeper:/],
  ];
  for (const [options, message] of wrong) {
    const call = (): unknown => zookeeper(options);
    expect(call, JSON.stringify(options)).toThrow(message);
    expect(call).toThrow(/^(?!.*secret).*$/s);
    expect(call).toThrow(expect.objectContaining({ code: "ERR_LOCK_ARGUMENT" }) as Error);
  }
});

it("takes options beside a URL, and options that are undefined as absent", () => {
  const url = "zookeepers://u:p@h1,[::1]:5/locks?sessionTimeout=6s";
  const expected = {
    servers: [
      { host: "h1", port: 2_181 },
      { host: "::1", port: 5 },
    ],
    chroot: "/locks",
    sessionMs: 6_000,
    digest: "u:p",
    tls: {},
  };
  expect(readOptions({ url })).toEqual(expected);
  const absent = { user: undefined, password: undefined } as object;
  expect(readOptions({ url, ...absent })).toEqual(expected);
  expect(readOptions({ url, chroot: "/other" })).toEqual({ ...expected, chroot: "/other" });
});
