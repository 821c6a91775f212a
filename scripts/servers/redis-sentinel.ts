// Redis with Sentinel for tests: a master, two replicas and three sentinels that agree on them, with a failover in about two
// seconds. Nodes keep their data over a kill.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type FoundProgram, findProgram } from "./packages.ts";
import { freePorts } from "./ports.ts";
import { launch, type RunningServer } from "./process.ts";
import { redisProgram } from "./redis.ts";
import { agreed, againWhenTaken, askRedis, type RedisNode, startAll } from "./redis-node.ts";

export const MASTER_NAME = "mymaster";

export interface SentinelOptions {
  /** More of redis-server's own arguments, for the nodes that hold data. */
  readonly args?: readonly string[];
  /** More of the environment of each of them, for example a clock. */
  readonly env?: (at: number) => Readonly<Record<string, string>>;
}

const DOWN_AFTER_MS = 800;
/** Not kept over a restart. A period of less than 220 ms or no less than the time until "down" leads to failovers that fail or repeat. */
const QUICK = ["ping-period", "250", "info-period", "500", "ask-period", "100", "publish-period", "200"];
const CALM = ["tilt-trigger", "5000", "tilt-period", "2000"];

const FAILOVER_MS = 3_000;

/** Of sentinels on this machine. */
export function sentinelUrl(ports: readonly number[]): string {
  return `redis+sentinel://${ports.map((port) => `127.0.0.1:${port}`).join(",")}/${MASTER_NAME}`;
}

export class SentinelServers implements RunningServer {
  /** The first one began as the master. */
  readonly nodes: readonly RedisNode[];
  readonly sentinels: readonly RunningServer[];

  constructor(nodes: readonly RedisNode[], sentinels: readonly RunningServer[]) {
    this.nodes = nodes;
    this.sentinels = sentinels;
  }

  get url(): string {
    return sentinelUrl(this.sentinels.map(({ port }) => port));
  }

  get port(): number {
    return (this.sentinels[0] as RunningServer).port;
  }

  get pid(): number | null {
    return (this.sentinels[0] as RunningServer).pid;
  }

  /** Of all nodes that hold data. */
  kill(signal: NodeJS.Signals): void {
    for (const node of this.nodes) node.signal(signal);
  }

  /** Whom the sentinels that answer name as the master; null while they do not agree. */
  async master(): Promise<RedisNode | null> {
    const asked = this.sentinels.map(({ port }) =>
      askRedis(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME).catch(() => ""),
    );
    const named = new Set(
      (await Promise.all(asked)).flatMap((reply) => /\r\n(\d+)\r\n$/.exec(reply)?.[1] ?? []),
    );
    const [port] = named;
    return named.size === 1 ? (this.nodes.find((node) => String(node.port) === port) ?? null) : null;
  }

  /**
   * As an operator asks for it, until there is another master. Sentinels that find no replica good enough say no, and on a busy machine they
   * give up on what they have begun: then they are asked again.
   */
  async failover(): Promise<void> {
    const old = await this.master();
    let askedMs = Number.NEGATIVE_INFINITY;
    await agreed("another master", async () => {
      if (![old, null].includes(await this.master())) return true;
      if (performance.now() - askedMs < 2 * FAILOVER_MS) return false;
      askedMs = performance.now();
      await askRedis(this.port, "SENTINEL", "FAILOVER", MASTER_NAME);
      return false;
    });
  }

  /** Until every sentinel knows one master, both replicas and the others. */
  settled(): Promise<void> {
    return agreed("the sentinels agree", async () => {
      const master = await this.master();
      const role = master === null ? "" : await master.ask("INFO", "replication");
      if (!/role:master/.test(role) || !/connected_slaves:2/.test(role)) return false;
      if ((role.match(/state=online/g) ?? []).length !== 2) return false;
      const quorums = this.sentinels.map(async ({ port }) => {
        const usable = /3 usable/.test(await askRedis(port, "SENTINEL", "CKQUORUM", MASTER_NAME));
        const replicas = await askRedis(port, "SENTINEL", "REPLICAS", MASTER_NAME);
        const flags = [...replicas.matchAll(/\r\nflags\r\n\$\d+\r\n([^\r]*)/g)].map(([, text]) => text);
        return usable && flags.length === 2 && flags.every((text) => text === "slave");
      });
      return (await Promise.all(quorums)).every(Boolean);
    });
  }

  async stop(): Promise<void> {
    await Promise.all([...this.sentinels, ...this.nodes].map((server) => server.stop()));
  }
}

export async function startSentinel(options: SentinelOptions = {}): Promise<SentinelServers> {
  const program = await findProgram(redisProgram);
  return againWhenTaken(async () => {
    const [first, second, third, ...watching] = (await freePorts(6)) as [number, number, number, ...number[]];
    const follow = ["--replicaof", "127.0.0.1", String(first)];
    const args = options.args ?? [];
    const own = (at: number): FoundProgram => ({ ...program, env: { ...program.env, ...options.env?.(at) } });
    const nodes = await startAll([
      { port: first, args, program: own(0) },
      { port: second, args: [...args, ...follow], program: own(1) },
      { port: third, args: [...args, ...follow], program: own(2) },
    ]);
    const sentinels: RunningServer[] = [];
    const servers = new SentinelServers(nodes, sentinels);
    try {
      await agreed("the replicas follow", async () =>
        /connected_slaves:2/.test(await (nodes[0] as RedisNode).ask("INFO", "replication")),
      );
      sentinels.push(...(await Promise.all(watching.map((port) => sentinel(port, first, program)))));
      await servers.settled();
      return servers;
    } catch (error) {
      await servers.stop();
      throw error;
    }
  });
}

async function sentinel(port: number, master: number, program: FoundProgram): Promise<RunningServer> {
  const server = await launch({
    name: "redis-sentinel",
    program,
    args(dataFolder) {
      const lines = [
        `port ${port}`,
        "bind 127.0.0.1",
        `dir ${dataFolder}`,
        `sentinel monitor ${MASTER_NAME} 127.0.0.1 ${master} 2`,
        `sentinel down-after-milliseconds ${MASTER_NAME} ${DOWN_AFTER_MS}`,
        `sentinel failover-timeout ${MASTER_NAME} ${FAILOVER_MS}`,
        `sentinel parallel-syncs ${MASTER_NAME} 2`,
      ];
      writeFileSync(join(dataFolder, "sentinel.conf"), `${lines.join("\n")}\n`);
      return [join(dataFolder, "sentinel.conf"), "--sentinel"];
    },
    ready: async () => (await askRedis(port, "PING")).startsWith("+PONG"),
  });
  // Only Redis 7 knows these; an older one is slower to notice.
  await askRedis(port, "SENTINEL", "DEBUG", ...QUICK, ...CALM).catch(() => "");
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    pid: server.pid,
    kill: (signal) => server.kill(signal),
    stop: () => server.stop(),
  };
}
