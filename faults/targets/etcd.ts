// A cluster of three etcd members, reached through all of them. Besides what can happen to any server, its leader is killed or
// frozen, its majority goes and comes back, and its history is compacted away under those who watch.

import { type EtcdCluster, type EtcdMember, startEtcdCluster } from "../../scripts/servers/etcd.ts";
import { hasLeaseBugs } from "../../src/stores/etcd/health.ts";
import { etcdExclusiveGuarantees, etcdGuarantees } from "../../src/stores/etcd/index.ts";
import type { FaultyServer, Target, TargetMaker, Trick } from "./target.ts";

const GUARANTEES = { fifo: etcdGuarantees, exclusive: etcdExclusiveGuarantees };

const NO_SPACE = "no-space";
const QUOTA = 8_000_000;
const JUNK = { key: base64("junk/"), range_end: base64("junk0") };
const PIECE: string = base64("x".repeat(500_000));
const PIECES = 40;
const ALARM = "NOSPACE";
const DISARM_TRIES = 50;

async function target(order: keyof typeof GUARANTEES, fault: string): Promise<Target> {
  const args = fault === NO_SPACE ? ["--quota-backend-bytes", String(QUOTA)] : [];
  const cluster = await startEtcdCluster({ args });
  const { version } = await ask<{ version: string }>(cluster, "maintenance/status", {});
  const url = (endpoints: readonly string[]): string => `etcd://${endpoints.join(",")}?order=${order}`;
  return {
    url: url(cluster.members.map(({ endpoint }) => endpoint)),
    guarantees: GUARANTEES[order],
    servers: cluster.members.map(faulty),
    fenced: hasLeaseBugs(version) ? ["server-freeze", "leader-freeze"] : [],
    through: (ports) => url(ports.map((port) => `127.0.0.1:${port}`)),
    tricks: {
      "leader-kill": leaderKill(cluster),
      "leader-freeze": leaderFreeze(cluster),
      "majority-lost": majorityLost(cluster),
      compaction: compaction(cluster),
      [NO_SPACE]: noSpace(cluster),
    },
    settled: () => cluster.led(),
    version: `etcd ${version}`,
    stop: () => cluster.stop(),
  };
}

export const etcdTarget: TargetMaker = (_folder, fault) => target("fifo", fault);
export const etcdExclusiveTarget: TargetMaker = (_folder, fault) => target("exclusive", fault);

function faulty(member: EtcdMember): FaultyServer {
  return {
    name: member.name,
    port: member.port,
    kill: () => member.restart(),
    freeze: () => member.kill("SIGSTOP"),
    thaw: () => member.kill("SIGCONT"),
    async down() {
      member.kill("SIGKILL");
    },
    up: () => member.start(),
  };
}

/** Down for a while, then back with its data. */
function leaderKill(cluster: EtcdCluster): Trick {
  let killed: EtcdMember | null = null;
  return {
    everyMs: [1_000, 3_000],
    forMs: [100, 1_500],
    begin: async () => {
      killed = await cluster.led();
      killed.kill("SIGKILL");
    },
    end: async () => {
      await killed?.start();
      await cluster.led();
    },
  };
}

/** A leader that stood still believes in itself for a moment when it wakes up. */
function leaderFreeze(cluster: EtcdCluster): Trick {
  let frozen: EtcdMember | null = null;
  return {
    everyMs: [1_000, 3_000],
    forMs: [100, 3_000],
    begin: async () => {
      frozen = await cluster.led();
      frozen.kill("SIGSTOP");
    },
    end: async () => {
      frozen?.kill("SIGCONT");
      await cluster.led();
    },
  };
}

function majorityLost(cluster: EtcdCluster): Trick {
  const two = cluster.members.slice(0, 2);
  return {
    everyMs: [2_000, 4_000],
    forMs: [300, 2_000],
    begin: () => Promise.resolve(two.forEach((member) => member.kill("SIGKILL"))),
    end: async () => {
      await Promise.all(two.map((member) => member.start()));
      await cluster.led();
    },
  };
}

function compaction(cluster: EtcdCluster): Trick {
  return {
    everyMs: [20, 150],
    forMs: [0, 0],
    begin: () => compact(cluster),
    end: () => Promise.resolve(),
  };
}

async function compact(cluster: EtcdCluster): Promise<void> {
  const { header } = await ask<{ header: { revision: string } }>(cluster, "kv/range", { key: "AA==" });
  await ask(cluster, "kv/compaction", { revision: header.revision });
}

/** Somebody else's keys use up the quota of the database; then the operator removes them, and does what the manual says. */
function noSpace(cluster: EtcdCluster): Trick {
  const alarms = async (): Promise<readonly Alarm[]> =>
    (await ask<{ alarms?: readonly Alarm[] }>(cluster, "maintenance/alarm", { action: "GET" })).alarms ?? [];
  return {
    everyMs: [500, 2_000],
    forMs: [200, 2_500],
    survives: "store full",
    begin: async () => {
      for (let i = 0; i < PIECES && (await alarms()).length === 0; i += 1)
        await ask(cluster, "kv/put", { key: base64(`junk/${i}`), value: PIECE });
      if ((await alarms()).every(({ alarm }) => alarm !== ALARM))
        throw new Error("the database took everything, and was never full");
    },
    end: async () => {
      await ask(cluster, "kv/deleterange", JUNK);
      for (let tries = 1; (await alarms()).length > 0; tries += 1) {
        if (tries > DISARM_TRIES) throw new Error("the database stays full");
        await compact(cluster);
        for (const member of cluster.members) await ask(cluster, "maintenance/defragment", {}, member);
        for (const alarm of await alarms())
          await ask(cluster, "maintenance/alarm", { action: "DEACTIVATE", ...alarm });
      }
    },
  };
}

interface Alarm {
  readonly memberID: string;
  readonly alarm: string;
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}

/** By the gateway of one member. What is refused is its own affair. */
async function ask<T>(
  cluster: EtcdCluster,
  path: string,
  body: object,
  member: EtcdMember | undefined = cluster.members[0],
): Promise<T> {
  const response = await fetch(`http://${member?.endpoint}/v3/${path}`, {
    method: "POST",
    body: JSON.stringify(body),
  });
  return (await response.json()) as T;
}
