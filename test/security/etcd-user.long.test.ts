// Authentication on etcd 3.5.28 and later, which answers Status to root alone.

import { describe, expect, it } from "vitest";
import { startEtcd, startEtcdCluster } from "../../scripts/servers/etcd.ts";
import { createLocks } from "../../src/index.ts";
import { addEtcdUser, exerciseEtcdUser } from "./etcd-user.ts";

describe("an etcd of the newest version with authentication", () => {
  it("serves a user with a role on the prefix", async () => {
    const server = await startEtcd({ own: true, newest: true });
    try {
      await exerciseEtcdUser(server);
    } finally {
      await server.stop();
    }
  });

  it("names a wrong password and a missing user, and does not retry them", async () => {
    const server = await startEtcd({ own: true, newest: true });
    try {
      await addEtcdUser(server.url, server.port);
      for (const [login, words] of [
        ["locker:wrong@", /user name or the password is wrong/],
        ["", /asks for a user name and a password/],
      ] as const) {
        const locks = createLocks(server.url.replace("://", `://${login}`));
        const failed = await locks.acquire("k", { wait: "1m" }).catch((error: unknown) => error);
        expect(failed).toMatchObject({ code: "ERR_STORE_UNAVAILABLE", retryable: false });
        expect(String(failed)).toMatch(words);
        await locks.close();
      }
    } finally {
      await server.stop();
    }
  });

  it("grants again after its leader was killed, and after a member was frozen", async () => {
    const cluster = await startEtcdCluster({ own: true, newest: true });
    const [first] = cluster.members;
    const locks = createLocks(await addEtcdUser(cluster.url, first?.port ?? 0));
    try {
      expect(await locks.using("k", (lease) => lease.held)).toBe(true);
      const leader = await cluster.led();
      leader.kill("SIGKILL");
      expect(await locks.using("k", { wait: "30s" }, (lease) => lease.held)).toBe(true);
      await leader.restart();
      const next = await cluster.led();
      next.kill("SIGSTOP");
      try {
        expect(await locks.using("k", { wait: "30s" }, (lease) => lease.held)).toBe(true);
      } finally {
        next.kill("SIGCONT");
      }
    } finally {
      await locks.close();
      await cluster.stop();
    }
  });
});
