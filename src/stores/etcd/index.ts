// `holdfast/etcd`: locks on an etcd cluster. This file stays light: the client and the rest of the store are
// loaded when a store is opened, never on import.

import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import { isMissing } from "../shared/missing-client.ts";
import { noClientError } from "./errors.ts";
import { etcdExclusiveGuarantees, etcdGuarantees } from "./guarantees.ts";
import { Keys } from "./keys.ts";
import { type EtcdOptions, readOptions } from "./options.ts";

export { etcdExclusiveGuarantees, etcdGuarantees } from "./guarantees.ts";
export type { EtcdCredentials, EtcdOptions, EtcdTls, GrpcChannel, GrpcClientOptions } from "./options.ts";

export function etcd(options: EtcdOptions): Store {
  const { order, ...cluster } = readOptions(options);
  return {
    name: "etcd",
    guarantees: order === "fifo" ? etcdGuarantees : etcdExclusiveGuarantees,
    load,
    async open(env: StoreEnv): Promise<OpenStore> {
      const [grpc, { Cluster }, { EtcdOpenStore }] = await load();
      const probeKey = new Keys(env.namespace).locks.key;
      return EtcdOpenStore.open(new Cluster(grpc, { ...cluster, probeKey }, env.system), order, env);
    },
  };
}

/** `etcd://...` or `etcds://...`. */
export function etcdByUrl(url: string): Store {
  return etcd({ url });
}

const load = () =>
  Promise.all([
    import(/* webpackIgnore: true */ "@grpc/grpc-js").catch((error: unknown) => {
      throw isMissing(error) ? noClientError() : error;
    }),
    import("./cluster/cluster.ts"),
    import("./store.ts"),
  ]);
