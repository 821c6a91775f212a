// Facts about ZooKeeper that the product leans on, asked of a real server and of a real ensemble.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { type Ensemble, startEnsemble, startZooKeeper } from "../../../scripts/servers/zookeeper.ts";
import { Connection } from "../../../src/stores/zookeeper/wire/connection.ts";
import { Code, ConnectionLost, ServerError } from "../../../src/stores/zookeeper/wire/errors.ts";
import { NO_SESSION } from "../../../src/stores/zookeeper/wire/handshake.ts";
import * as ops from "../../../src/stores/zookeeper/wire/ops.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { stopped } from "../../support/processes.ts";
import { bareSession } from "./bare-session.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";

const data = Buffer.from("x");
const acl = ops.OPEN_ACL;
const container = (path: string): ops.Op<ops.Created> =>
  ops.create({ path, data, acl, flags: ops.Flags.container });
const place = (path: string): ops.Op<ops.Created> =>
  ops.create({ path, data, acl, flags: ops.Flags.ephemeralSequential });

/** A connection of a session, new unless `before` names one. */
function connect(
  port: number,
  timeoutMs = 1_000,
  before?: Connection,
  onEvent = (): void => {},
): Promise<Connection> {
  const { id, password } = before?.reply ?? NO_SESSION;
  const request = { id, password, timeoutMs, lastZxid: before?.lastZxid ?? 0n };
  const address = { host: "127.0.0.1", port };
  return Connection.open({ address, tls: null, request, connectMs: 5_000, system: nodeSystem, onEvent });
}

/** A server that is behind what the session has seen hangs up: it is asked again until it has caught up. */
async function move(port: number, timeoutMs: number, before: Connection): Promise<Connection> {
  const endMs = performance.now() + 5_000;
  for (;;) {
    try {
      return await connect(port, timeoutMs, before);
    } catch (error) {
      if (!(error instanceof ConnectionLost) || performance.now() > endMs) throw error;
      await sleep(10);
    }
  }
}

const gone = new ConnectionLost("the test is over with it");

describe("one ZooKeeper", () => {
  let server: RunningServer;
  let connection: Connection;

  beforeAll(async () => {
    server = await startZooKeeper({ own: true });
    connection = await connect(server.port, 10_000);
  });

  afterAll(async () => {
    connection?.destroy(gone);
    await server?.stop();
  });

  it("numbers the places of a node in the order of their making, with transactions that grow", async () => {
    await connection.send(container("/order"));
    const made = await Promise.all([1, 2, 3].map(() => connection.send(place("/order/x."))));
    const numbers = made.map(({ path }) => Number(path.slice(-10)));
    expect(numbers).toEqual([0, 1, 2]);
    const zxids = made.map(({ stat }) => stat.czxid);
    expect(zxids).toEqual([...zxids].sort((a, b) => (a < b ? -1 : 1)));
    expect(new Set(zxids).size).toBe(3);
  });

  it("answers the requests of a session in their order, so that a read sees the write before it", async () => {
    await connection.send(container("/pipe"));
    const [made, names] = await Promise.all([
      connection.send(place("/pipe/x.")),
      connection.send(ops.getChildren("/pipe")),
    ]);
    expect(names).toEqual([made.path.slice("/pipe/".length)]);
  });

  it("makes all nodes of a multi in one transaction, or none", async () => {
    await connection.send(container("/m1"));
    await connection.send(container("/m2"));
    const wish = { data, acl, flags: ops.Flags.ephemeralSequential };
    const both = ["/m1/x.", "/m2/x."].map((path) => ops.createPath({ path, ...wish }));
    const [one, two] = await connection.send(ops.multi(both));
    if (one === undefined || two === undefined || !("value" in one) || !("value" in two))
      throw new Error("no values");
    const stats = await Promise.all(
      [one, two].map(({ value }) => connection.send(ops.exists(value as string))),
    );
    expect(stats[0]?.czxid).toBe(stats[1]?.czxid);
    const failed = await connection.send(ops.multi([...both, ops.check("/nowhere")]));
    expect(failed.map((result) => "error" in result && result.error)).toContain(Code.noNode);
    expect(await connection.send(ops.getChildren("/m1"))).toHaveLength(1);
  });

  it("tells a child watch on an ephemeral node of its end, and not of its changes", async () => {
    const events: string[] = [];
    const watching = await connect(server.port, 10_000, undefined, ((event: { kind: string }) =>
      events.push(event.kind)) as never);
    await connection.send(container("/watched"));
    const { path } = await connection.send(place("/watched/x."));
    expect(await watching.send(ops.getChildren(path, true))).toEqual([]);
    await connection.send(ops.setData(path, Buffer.from("changed")));
    await watching.send(ops.sync("/"));
    expect(events).toEqual([]);
    await connection.send(ops.remove(path));
    await watching.send(ops.sync("/"));
    expect(events).toEqual(["deleted"]);
    watching.destroy(gone);
  });

  it("leaves no watch on a node that is not there when its children are asked for", async () => {
    await expect(connection.send(ops.getChildren("/nobody", true))).rejects.toThrow("NoNode");
    await connection.send(container("/nobody"));
    await connection.send(ops.remove("/nobody"));
    expect(connection.isOpen).toBe(true);
  });

  it("keeps the session of a connection that broke, and ends it after its timeout and a tick, not before", async () => {
    await connection.send(container("/session"));
    const mortal = await connect(server.port, 1_000);
    const { path } = await mortal.send(place("/session/x."));
    await mortal.send(ops.sync("/"));
    const sinceMs = nodeSystem.monoMs();
    const meter = new StallMeter();
    mortal.destroy(gone);
    for (;;) {
      const names = await connection.send(ops.getChildren("/session"));
      if (names.length === 0) break;
      expect(names).toEqual([path.slice("/session/".length)]);
      expect(meter.workingMs()).toBeLessThan(5_000);
      await sleep(10);
    }
    // Counted from after the last answer: 100 ms are more than the way there and back took.
    expect(nodeSystem.monoMs() - sinceMs).toBeGreaterThan(900);
    const back = await connect(server.port, 1_000, mortal);
    expect(back.reply.timeoutMs).toBe(0);
    back.destroy(gone);
  });

  it("lets a session go on over a new connection, with its nodes", async () => {
    await connection.send(container("/resumed"));
    const before = await connect(server.port, 4_000);
    await before.send(place("/resumed/x."));
    before.destroy(gone);
    const after = await connect(server.port, 4_000, before);
    expect(after.reply.id).toBe(before.reply.id);
    expect(await after.send(ops.getChildren("/resumed"))).toHaveLength(1);
    await after.send(ops.close);
    expect(await connection.send(ops.getChildren("/resumed"))).toEqual([]);
    after.destroy(gone);
  });

  it("corrects a session timeout to what it allows", async () => {
    const hasty = await connect(server.port, 1);
    const patient = await connect(server.port, 3_600_000);
    expect([hasty.reply.timeoutMs, patient.reply.timeoutMs]).toEqual([400, 60_000]);
    for (const one of [hasty, patient]) {
      await one.send(ops.close);
      one.destroy(gone);
    }
  });

  it("tells its own time to whoever writes", async () => {
    await connection.send(container("/time"));
    const beforeMs = Date.now();
    const { mtime } = await connection.send(ops.setData("/time", Buffer.alloc(0)));
    expect(mtime).toBeGreaterThanOrEqual(beforeMs - 1);
    expect(mtime).toBeLessThanOrEqual(Date.now() + 1);
  });

  it("refuses what is not of the version that was named", async () => {
    await connection.send(container("/version"));
    const { version } = await connection.send(ops.setData("/version", data));
    await connection.send(ops.setData("/version", data, version));
    await expect(connection.send(ops.setData("/version", data, version))).rejects.toThrow("BadVersion");
  });

  it("shows nodes that were made with credentials to nobody else", async () => {
    const secret = await connect(server.port, 4_000);
    await secret.send(ops.auth("digest", Buffer.from("user:password")), -4);
    await secret.send(ops.create({ path: "/secret", data, acl: ops.OWN_ACL, flags: ops.Flags.persistent }));
    const refused = await connection.send(ops.getData("/secret")).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ServerError);
    expect((refused as ServerError).code).toBe(Code.noAuth);
    await secret.send(ops.remove("/secret"));
    secret.destroy(gone);
  });
});

describe("containers", () => {
  it("go by themselves when they were used and are empty", async () => {
    const java = ["-Dznode.container.checkIntervalMs=200"];
    const server = await startZooKeeper({ own: true, java });
    const { connection, close } = await bareSession(server.url);
    try {
      await connection.send(container("/used"));
      const { path } = await connection.send(place("/used/x."));
      await sleep(600);
      expect(await connection.send(ops.getChildren("/used"))).toHaveLength(1);
      await connection.send(ops.remove(path));
      for (let tries = 0; tries < 2_000; tries += 1) {
        const names = await connection.send(ops.getChildren("/"));
        if (!names.includes("used")) return;
        await sleep(50);
      }
      throw new Error("the container stayed");
    } finally {
      await close();
      await server.stop();
    }
  });
});

describe("an ensemble", () => {
  let ensemble: Ensemble;

  beforeAll(async () => {
    ensemble = await startEnsemble(3);
  });

  afterAll(async () => {
    await ensemble?.stop();
  });

  it("refuses what arrives by a server that the session has left", async () => {
    const [one, two] = ensemble.members;
    if (one === undefined || two === undefined) throw new Error("no members");
    const before = await connect(one.port, 4_000);
    await before.send(container("/moved"));
    const after = await move(two.port, 4_000, before);
    const late = await before.send(place("/moved/late.")).catch((error: unknown) => error as Error);
    expect(late).toBeInstanceOf(Error);
    await after.send(ops.sync("/moved"));
    expect(await after.send(ops.getChildren("/moved"))).toEqual([]);
    await after.send(ops.close);
    after.destroy(gone);
    before.destroy(gone);
  });

  it.each([
    ["a sync at a follower", "follower", (connection: Connection) => connection.send(ops.sync("/"))],
    [
      "a write at the leader",
      "leader",
      (connection: Connection) => connection.send(ops.multi([ops.check("/")])),
    ],
  ] as const)("lets a read behind %s see what another server has acknowledged", async (_what, role, ask) => {
    const leader = await ensemble.leader();
    const followers = ensemble.members.filter((member) => member !== leader);
    const [one, two] = await Promise.all(
      [followers[0], role === "leader" ? leader : followers[1]].map((member) =>
        connect(member?.port ?? 0, 4_000),
      ),
    );
    if (one === undefined || two === undefined) throw new Error("no members");
    await one.send(container(`/seen-${role}`));
    for (let turn = 0; turn < 50; turn += 1) {
      const { path } = await one.send(place(`/seen-${role}/x.`));
      const [, names] = await Promise.all([ask(two), two.send(ops.getChildren(`/seen-${role}`))]);
      expect(path).toBe(`/seen-${role}/${names[0]}`);
      await one.send(ops.remove(path));
    }
    for (const connection of [one, two]) {
      await connection.send(ops.close);
      connection.destroy(gone);
    }
  });

  it("answers a sync at the leader without regard to what others wait for, but never ahead of what the session asked before", async () => {
    const leader = await ensemble.leader();
    const followers = ensemble.members.filter((member) => member !== leader);
    const [own, other] = await Promise.all([1, 2].map(() => connect(leader.port, 4_000)));
    if (own === undefined || other === undefined) throw new Error("no members");
    await own.send(container("/asked"));
    try {
      for (const member of followers) member.kill("SIGSTOP");
      await Promise.all(followers.map(({ pid }) => stopped(pid as number)));
      const lost = own.send(place("/asked/x.")).catch((error: unknown) => error);
      await other.send(ops.sync("/"));
      expect(await other.send(ops.getChildren("/asked"))).toEqual([]);
      own.destroy(gone);
      expect(await lost).toBeInstanceOf(ConnectionLost);
      const again = await connect(leader.port, 4_000, own);
      let answered = false;
      const names = again.send(ops.sync("/")).then(async () => {
        answered = true;
        return await again.send(ops.getChildren("/asked"));
      });
      await other.send(ops.sync("/"));
      expect(answered).toBe(false);
      for (const member of followers) member.kill("SIGCONT");
      expect(await names).toHaveLength(1);
      for (const connection of [again, other]) connection.destroy(gone);
    } finally {
      for (const member of followers) member.kill("SIGCONT");
    }
  });

  it("answers pings at a server whose leader stands still, but no sync", async () => {
    const leader = await ensemble.leader();
    const follower = ensemble.members.find((member) => member !== leader);
    const connection = await connect(follower?.port ?? 0, 10_000);
    try {
      leader.kill("SIGSTOP");
      await stopped(leader.pid as number);
      await connection.send(ops.ping, -2);
      let synced = false;
      const asked = connection.send(ops.sync("/")).then(
        () => {
          synced = true;
        },
        () => {},
      );
      await sleep(300);
      expect(synced).toBe(false);
      leader.kill("SIGCONT");
      await asked;
    } finally {
      leader.kill("SIGCONT");
      connection.destroy(gone);
    }
  });

  it("keeps sessions and their nodes when the leader is killed", async () => {
    const { session, connection, close } = await bareSession(ensemble.url, 8_000);
    await connection.send(container("/survives"));
    await connection.send(place("/survives/x."));
    const leader = await ensemble.leader();
    leader.kill("SIGKILL");
    await sleep(50);
    const deadline = nodeSystem.monoMs() + 120_000;
    for (;;) {
      const next = await session.ready(AbortSignal.timeout(120_000));
      const names = await next.send(ops.sync("/")).then(
        () => next.send(ops.getChildren("/survives")),
        () => null,
      );
      if (names !== null) {
        expect(next.sessionId).toBe(connection.sessionId);
        expect(names).toHaveLength(1);
        break;
      }
      expect(nodeSystem.monoMs()).toBeLessThan(deadline);
      await sleep(50);
    }
    await close();
    await leader.restart();
    await ensemble.settled();
  });
});
