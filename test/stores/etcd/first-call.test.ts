// etcd, killed and started again with its data: one member, and all of three.

import { Proxy } from "../../../faults/proxy.ts";
import { type EtcdCluster, type EtcdMember, startEtcdCluster } from "../../../scripts/servers/etcd.ts";
import { createLocks } from "../../../src/index.ts";
import { describeFirstCallAfterRestart } from "../../support/first-call-after-restart.ts";

for (const [count, hidden] of [
  [1, false],
  [1, true],
  [3, false],
] as const) {
  let cluster: EtcdCluster;
  describeFirstCallAfterRestart(
    `members: ${count}${hidden ? ", that the client has not noticed" : ""}`,
    async () => {
      cluster = await startEtcdCluster({ own: true, count });
      const [{ port }] = cluster.members as [EtcdMember];
      const proxy = await Proxy.listen({ host: "127.0.0.1", port });
      const url = hidden ? `etcd://127.0.0.1:${proxy.port}` : cluster.url;
      return {
        ...(hidden ? { proxies: [proxy] } : {}),
        locks: "kept",
        open: () => createLocks(url),
        kill() {
          for (const member of cluster.members) member.kill("SIGKILL");
          return Promise.resolve();
        },
        async start() {
          await Promise.all(cluster.members.map((member) => member.restart()));
          await cluster.led();
        },
      };
    },
    () => cluster.stop(),
  );
}
