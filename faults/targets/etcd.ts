// A cluster of three etcd members, reached through all of them. Besides what can happen to any server, its leader is killed or
// frozen, its majority goes and comes back, and its history is compacted away under those who watch.

import { type EtcdCluster, type EtcdMember, startEtcdCluster } from "../../scripts/servers/etcd.ts";
import { hasLeaseBugs } from "../../src/stores/etcd/check.ts";
import { etcdExclusiveGuarantees, etcdGuarantees } from "../../src/stores/etcd/index.ts";
import type { FaultyServer, Target, Trick } from "./target.ts";

const GUARANTEES = { fifo: etcdGuarantees, exclusive: etcdExclusiveGuarantees };

async function target(order: keyof typeof GUARANTEES): Promise<Target> {
  const cluster = await startEtcdCluster();
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
    },
    settled: () => cluster.led(),
    version: `etcd ${version}`,
    stop: () => cluster.stop(),
  };
}

export const etcdTarget = (): Promise<Target> => target("fifo");
export const etcdExclusiveTarget = (): Promise<Target> => target("exclusive");

function faulty(member: EtcdMember): FaultyServer {
  return {
    name: member.name,
    port: member.port,
    kill: () => member.restart(),
    freeze: () => member.kill("SIGSTOP"),
    thaw: () => member.kill("SIGCONT"),
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
    begin: async () => {
      const { header } = await ask<{ header: { revision: string } }>(cluster, "kv/range", { key: "AA==" });
      await ask(cluster, "kv/compaction", { revision: header.revision });
    },
    end: () => Promise.resolve(),
  };
}

/** By the gateway of the first member. What is refused is its own affair. */
async function ask<T>(cluster: EtcdCluster, path: string, body: object): Promise<T> {
  const [member] = cluster.members;
  const response = await fetch(`http://${member?.endpoint}/v3/${path}`, {
    method: "POST",
    body: JSON.stringify(body),
  });
  return (await response.json()) as T;
}
