// The user of docs/operations/security.md on an etcd with authentication: it may lock, and do nothing else.

import { expect } from "vitest";
import { createLocks } from "../../src/index.ts";
import { b64, Gateway } from "../stores/etcd/gateway.ts";
import { exercise } from "./exercise.ts";
import { commands, recipe } from "./recipes.ts";

/** The lines of etcdctl, which is not at hand, as what it asks the server. */
async function etcdctl(gateway: Gateway, words: readonly string[]): Promise<unknown> {
  const [program, noun, verb, ...rest] = words;
  expect(program).toBe("etcdctl");
  switch (`${noun} ${verb}`) {
    case "role add":
      return gateway.ask("auth/role/add", { name: rest[0] });
    case "role grant-permission": {
      const [name, flag, type, key = ""] = rest;
      expect([flag, type]).toEqual(["--prefix=true", "readwrite"]);
      const end = key.slice(0, -1) + String.fromCharCode(key.charCodeAt(key.length - 1) + 1);
      const perm = { permType: "READWRITE", key: b64(key), range_end: b64(end) };
      return gateway.ask("auth/role/grant", { name, perm });
    }
    case "user add": {
      const [name, password] = (rest[0] ?? "").split(":");
      return gateway.ask("auth/user/add", { name, password });
    }
    case "user grant-role":
      return gateway.ask("auth/user/grant", { user: rest[0], role: rest[1] });
    default:
      throw new Error(`no such command: ${words.join(" ")}`);
  }
}

/** Adds the user and turns authentication on. Returns the URL with the user in it. */
export async function addEtcdUser(url: string, port: number): Promise<string> {
  const gateway = new Gateway(`127.0.0.1:${port}`);
  for (const words of commands(recipe("etcdctl"))) await etcdctl(gateway, words);
  for (const line of ["user add root:r", "role add root", "user grant-role root root"])
    await etcdctl(gateway, ["etcdctl", ...line.split(" ")]);
  await gateway.ask("auth/enable");
  return url.replace("://", "://locker:secret@");
}

export async function exerciseEtcdUser({ url, port }: { url: string; port: number }): Promise<void> {
  const user = await addEtcdUser(url, port);
  expect((await exercise(user)).failed).toEqual([]);
  const elsewhere = createLocks(user, { namespace: "other" });
  await expect(elsewhere.acquire("k", { wait: "1m" })).rejects.toThrow(/may not do that/);
  await elsewhere.close();
  const gateway = new Gateway(`127.0.0.1:${port}`);
  const { token } = await gateway.ask<{ token: string }>("auth/authenticate", {
    name: "locker",
    password: "secret",
  });
  gateway.token = token;
  await expect(gateway.put("orders", "1")).rejects.toThrow(/permission denied/);
  await expect(gateway.put("holdfast0", "1")).rejects.toThrow(/permission denied/);
}
