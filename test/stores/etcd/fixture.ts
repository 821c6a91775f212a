// A real etcd, and opened stores whose messages a test can lose, delay or count on their way.

import * as grpc from "@grpc/grpc-js";
import type { Io, OpenStore, Request } from "../../../src/core/store.ts";
import { Cluster, type EtcdClient } from "../../../src/stores/etcd/cluster/cluster.ts";
import { UnansweredCall } from "../../../src/stores/etcd/cluster/member.ts";
import { EtcdOpenStore } from "../../../src/stores/etcd/store.ts";
import { nodeSystem } from "../../../src/system/node.ts";

function endpointsOf(url: string): string[] {
  return url.replace(/^etcds?:\/\//, "").split(",");
}

type Txn = EtcdClient["txn"];

/** A client whose transactions go through `around` first. */
export class TamperedClient {
  readonly client: EtcdClient;
  readonly #real: Cluster;
  around: ((send: () => ReturnType<Txn>, txn: Parameters<Txn>[0]) => ReturnType<Txn>) | null = null;
  /** Held back while it is not null. */
  #watches: (() => void)[] | null = null;
  /** How many calls of each kind have left. */
  readonly counts: Record<string, number> = {};

  constructor(url: string) {
    const options = { endpoints: endpointsOf(url), probeKey: "t/k/" };
    this.#real = new Cluster(grpc, options, nodeSystem);
    const real = this.#real;
    const counted = <A extends unknown[], R>(name: string, call: (...args: A) => R) => {
      return (...args: A): R => {
        this.counts[name] = (this.counts[name] ?? 0) + 1;
        return call(...args);
      };
    };
    this.client = {
      txn: counted("txn", (txn, io) => {
        const send = (): ReturnType<Txn> => real.txn(txn, io);
        return this.around === null ? send() : this.around(send, txn);
      }),
      range: counted("range", (range, io) => real.range(range, io)),
      grantLease: counted("grantLease", (id, seconds, io) => real.grantLease(id, seconds, io)),
      keepAlive: counted("keepAlive", (id, io) => real.keepAlive(id, io)),
      revokeLease: counted("revokeLease", (id, io) => real.revokeLease(id, io)),
      leaseLife: counted("leaseLife", (id, io) => real.leaseLife(id, io)),
      version: counted("version", (io) => real.version(io)),
      facts: counted("facts", (io) => real.facts(io)),
      watch: counted("watch", (hear, ended) => {
        const { send, close } = real.watch(hear, ended);
        const sendWatch: typeof send = (watch) => {
          if (this.#watches === null) send(watch);
          else this.#watches.push(() => send(watch));
        };
        return { send: sendWatch, close };
      }),
      endIdleStreams: () => real.endIdleStreams(),
      close: () => real.close(),
    };
  }

  /** The next transaction that fits is carried out, and its reply is lost. */
  loseReply(fits: (txn: Parameters<Txn>[0]) => boolean = creates): void {
    this.#once(fits, async (send) => {
      await send();
      throw new UnansweredCall("the reply was lost");
    });
  }

  /** The next transaction that fits fails for its sender and arrives when the returned function is called. */
  delay(fits: (txn: Parameters<Txn>[0]) => boolean = creates): () => ReturnType<Txn> {
    let arrive: (() => ReturnType<Txn>) | null = null;
    this.#once(fits, (send) => {
      arrive = send;
      return Promise.reject(new UnansweredCall("it is still on its way"));
    });
    return () => {
      if (arrive === null) throw new Error("nothing was sent");
      return arrive();
    };
  }

  /** What is sent on watch streams waits until the returned function is called. */
  delayWatches(): () => void {
    const delayed: (() => void)[] = [];
    this.#watches = delayed;
    return () => {
      this.#watches = null;
      for (const send of delayed) send();
    };
  }

  #once(
    fits: (txn: Parameters<Txn>[0]) => boolean,
    tamper: (send: () => ReturnType<Txn>) => ReturnType<Txn>,
  ): void {
    this.around = (send, txn) => {
      if (!fits(txn)) return send();
      this.around = null;
      return tamper(send);
    };
  }
}

/** Whether it would create the name of a request. */
export function creates({ success = [] }: Parameters<Txn>[0]): boolean {
  return success.some((op) => op.put?.key?.includes("/k/") === true);
}

export function openOn(
  client: EtcdClient,
  { order = "fifo", namespace = "t" }: { order?: "fifo" | "exclusive"; namespace?: string } = {},
): Promise<OpenStore> {
  return EtcdOpenStore.open(client, order, { namespace, system: nodeSystem, allow: [] });
}

export function makeIo(signal: AbortSignal = new AbortController().signal): Io {
  return {
    timeoutMs: 5_000,
    signal,
    sleep: (ms) => new Promise((resolve) => void nodeSystem.after(ms, resolve)),
  };
}

export function request(key: string | readonly string[], more: Partial<Request> = {}): Request {
  return {
    keys: typeof key === "string" ? [key] : key,
    id: nodeSystem.randomId(),
    seq: 1,
    mode: "exclusive",
    permits: 1,
    limit: 1,
    ttlMs: 10_000,
    graceMs: 100,
    reservedFences: 10_000,
    keepMs: 0,
    label: "test",
    actor: "test",
    queue: true,
    ...more,
  };
}

export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  ms = 10_000,
): Promise<void> {
  const deadline = nodeSystem.monoMs() + ms;
  while (!(await condition())) {
    if (nodeSystem.monoMs() > deadline) throw new Error(`${what} did not happen within ${ms} ms`);
    await new Promise<void>((resolve) => void nodeSystem.after(10, resolve));
  }
}
