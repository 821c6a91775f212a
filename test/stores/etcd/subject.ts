// etcd as the subject of the suite: one node or a cluster of three, in either order.

import { type EtcdCluster, startEtcdCluster } from "../../../scripts/servers/etcd.ts";
import { etcd, etcdExclusiveGuarantees, etcdGuarantees } from "../../../src/stores/etcd/index.ts";
import type { Server, Subject } from "../../../src/testing/index.ts";
import { Gateway } from "./gateway.ts";

export interface EtcdSubjectOptions {
  readonly nodes?: 1 | 3;
  readonly order?: "fifo" | "exclusive";
}

export function etcdSubject({ nodes = 1, order = "fifo" }: EtcdSubjectOptions = {}): {
  readonly store: Subject;
  readonly server: Server;
} {
  let cluster: EtcdCluster | null = null;
  const running = (): EtcdCluster => {
    if (cluster === null) throw new Error("the server was not started");
    return cluster;
  };
  return {
    store: {
      name: `etcd, ${nodes === 1 ? "one node" : "three nodes"}, order ${order}`,
      guarantees: order === "fifo" ? etcdGuarantees : etcdExclusiveGuarantees,
      create: () => etcd({ url: running().url, order }),
      child: () => ({ url: `${running().url}?order=${order}` }),
      footprint: async (namespace) =>
        (await new Gateway(running().members[0]?.endpoint ?? "").keys(`${namespace}/`)).length,
    },
    server: {
      async start() {
        cluster = await startEtcdCluster({ count: nodes });
      },
      /** Every member one after the other: the cluster as a whole goes on. */
      async restart() {
        for (const member of running().members) {
          await member.restart();
          await running().led();
        }
      },
      async stop() {
        await cluster?.stop();
      },
    },
  };
}
