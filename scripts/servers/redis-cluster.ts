// Redis Cluster for tests: three masters, each with a replica where asked for, and a failover in about two seconds.
// Nodes keep their data and their place in the cluster over a kill.

import { findProgram } from "./packages.ts";
import { freePorts } from "./ports.ts";
import type { RunningServer } from "./process.ts";
import { redisProgram } from "./redis.ts";
import { agreed, againWhenTaken, type RedisNode, startAll } from "./redis-node.ts";

export interface ClusterOptions {
  /** A replica for every master. */
  readonly replicas?: boolean;
  /** More of redis-server's own arguments. */
  readonly args?: readonly string[];
  /** More of the environment of each node, for example a clock. */
  readonly env?: (at: number) => Readonly<Record<string, string>>;
}

const MASTERS = 3;
const SLOTS = 16_384;
const NODE_TIMEOUT_MS = 1_000;

export class ClusterServers implements RunningServer {
  /** The first three began as masters; the one three places on is the replica of each. */
  readonly nodes: readonly RedisNode[];

  constructor(nodes: readonly RedisNode[]) {
    this.nodes = nodes;
  }

  get url(): string {
    return `redis+cluster://${this.nodes.map(({ name }) => name).join(",")}`;
  }

  get port(): number {
    return (this.nodes[0] as RedisNode).port;
  }

  get pid(): number | null {
    return (this.nodes[0] as RedisNode).pid;
  }

  kill(signal: NodeJS.Signals): void {
    for (const node of this.nodes) node.signal(signal);
  }

  /** Whom a node that answers knows as the master of a slot. */
  async masterOf(slot: number): Promise<RedisNode | null> {
    for (const node of this.nodes) {
      const lines = await node.ask("CLUSTER", "NODES").catch(() => "");
      for (const line of lines.split("\n")) {
        const [, address = "", flags = "", , , , , , ...ranges] = line.split(" ");
        if (!flags.includes("master") || flags.includes("fail")) continue;
        const has = ranges.some((range) => {
          const [first = "", last = first] = range.split("-");
          return slot >= Number(first) && slot <= Number(last);
        });
        const port = /:(\d+)@/.exec(address)?.[1];
        if (has) return this.nodes.find((one) => String(one.port) === port) ?? null;
      }
    }
    return null;
  }

  /** Until every node that answers sees all slots served and all nodes well. */
  settled(): Promise<void> {
    return agreed("the cluster is whole", async () => {
      const views = this.nodes.map(async (node) => {
        if (!/cluster_state:ok/.test(await node.ask("CLUSTER", "INFO"))) return false;
        const lines = (await node.ask("CLUSTER", "NODES"))
          .split("\n")
          .filter((line) => / (master|slave|myself)/.test(line));
        if (lines.length !== this.nodes.length) return false;
        return lines.every((line) => !/fail|handshake|noaddr/.test(line) && / connected/.test(line));
      });
      if (!(await Promise.all(views)).every(Boolean)) return false;
      const links = this.nodes.map(
        async (node) => !/master_link_status:down/.test(await node.ask("INFO", "replication")),
      );
      return (await Promise.all(links)).every(Boolean);
    });
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
  }
}

export async function startCluster(options: ClusterOptions = {}): Promise<ClusterServers> {
  const program = await findProgram(redisProgram);
  const count = options.replicas === true ? 2 * MASTERS : MASTERS;
  return againWhenTaken(async () => {
    const ports = await freePorts(2 * count);
    const buses = ports.slice(count);
    const nodes = await startAll(
      ports.slice(0, count).map((port, at) => ({
        port,
        program: { ...program, env: { ...program.env, ...options.env?.(at) } },
        args: [
          ...["--cluster-enabled", "yes", "--cluster-port", String(buses[at])],
          ...["--cluster-config-file", "nodes.conf", "--cluster-node-timeout", String(NODE_TIMEOUT_MS)],
          ...["--cluster-replica-validity-factor", "0", ...(options.args ?? [])],
        ],
      })),
    );
    const servers = new ClusterServers(nodes);
    try {
      await join(nodes, buses);
      await servers.settled();
      return servers;
    } catch (error) {
      await servers.stop();
      throw error;
    }
  });
}

async function join(nodes: readonly RedisNode[], buses: readonly number[]): Promise<void> {
  const share = Math.ceil(SLOTS / MASTERS);
  const [first, ...others] = nodes as [RedisNode, ...RedisNode[]];
  for (const [at, node] of nodes.entries()) {
    await node.ask("CLUSTER", "SET-CONFIG-EPOCH", String(at + 1));
    if (at >= MASTERS) continue;
    const last = Math.min(SLOTS, (at + 1) * share) - 1;
    await node.ask("CLUSTER", "ADDSLOTSRANGE", String(at * share), String(last));
  }
  for (const [at, node] of others.entries()) {
    await first.ask("CLUSTER", "MEET", "127.0.0.1", String(node.port), String(buses[at + 1]));
  }
  for (const [at, node] of nodes.slice(MASTERS).entries()) {
    const master = /\r\n(\w{40})\r\n/.exec(await (nodes[at] as RedisNode).ask("CLUSTER", "MYID"))?.[1] ?? "";
    await agreed("the nodes have met", async () => (await node.ask("CLUSTER", "NODES")).includes(master));
    await agreed("the replica follows", async () =>
      (await node.ask("CLUSTER", "REPLICATE", master)).startsWith("+OK"),
    );
  }
}
