// Two MariaDB that replicate both ways, one URL for both: either is killed, or clients are cut off from it, and the other takes
// over. What was granted and not yet replicated is unknown to it, so it grants nothing until all of that is over.

import { setTimeout as sleep } from "node:timers/promises";
import { type MariadbNode, MariadbPair } from "../../scripts/servers/mariadb-pair.ts";
import { APP } from "../../scripts/servers/mariadb.ts";
import { mysqlSeveralGuarantees } from "../../src/stores/mysql/index.ts";
import { LONGEST_TTL_MS } from "../client/plan.ts";
import { Proxy } from "../proxy.ts";
import type { FaultyServer, TargetMaker, Trick } from "./target.ts";

const FAILOVER = "failover, where replication was not behind";
const CUT_OFF = "cut-off";
/** Silence of the old primary and whatever a loaded machine adds to it. */
const TAKEN_OVER_MS = 30_000;
const LOOK_EVERY_MS = 50;

type Two<T> = readonly [T, T];

export const mysqlPairTarget: TargetMaker = async (_folder, fault) => {
  const pair = await MariadbPair.start();
  const proxies = fault === CUT_OFF ? await proxiesOf(pair) : null;
  const [node] = pair.nodes;
  return {
    url: urlOf((proxies ?? pair.nodes).map(({ port }) => port)),
    guarantees: mysqlSeveralGuarantees,
    servers: pair.nodes.map((one, at) => faulty(pair, one, `mariadb-${at + 1}`)),
    survives: ["server restart"],
    through: urlOf,
    listens: /AS hush/,
    tricks: { failover: failover(pair), [CUT_OFF]: cutOff(proxies) },
    version: `MariaDB ${String((await node.query("SELECT VERSION() AS v"))[0]?.["v"])}, two`,
    async stop() {
      for (const proxy of proxies ?? []) await proxy.close();
      await pair.stop();
    },
  };
};

function urlOf(ports: readonly number[]): string {
  const hosts = ports.map((port) => `127.0.0.1:${port}`).join(",");
  return `mysql://${APP.user}:${APP.password}@${hosts}/${APP.database}?maxTtl=${LONGEST_TTL_MS}ms`;
}

function proxiesOf({ nodes: [one, two] }: MariadbPair): Promise<Two<Proxy>> {
  const listen = ({ port }: MariadbNode): Promise<Proxy> => Proxy.listen({ host: "127.0.0.1", port });
  return Promise.all([listen(one), listen(two)]);
}

function faulty(pair: MariadbPair, node: MariadbNode, name: string): FaultyServer {
  return {
    name,
    port: node.port,
    async kill() {
      await node.kill();
      await node.start();
      await pair.linked();
    },
    freeze: () => node.signal("SIGSTOP"),
    thaw: () => node.signal("SIGCONT"),
  };
}

/** The present primary is killed, so each of the two in turn, and comes back some time after the other has taken over. */
function failover(pair: MariadbPair): Trick {
  let dead: MariadbNode | null = null;
  return {
    everyMs: [5_000, 7_000],
    forMs: [0, 1_000],
    survives: FAILOVER,
    async begin() {
      const [one, two] = pair.nodes;
      const first = (await primaryBy(two)) === (await nameOf(one));
      const other = first ? two : one;
      dead = first ? one : two;
      await dead.kill();
      await takenOver(other);
    },
    async end() {
      await dead?.start();
      await pair.linked();
    },
  };
}

/** Nobody reaches one of the two, while these reach each other: sometimes for so long that the other one takes over. */
function cutOff(proxies: Two<Proxy> | null): Trick {
  let strikes = 0;
  let cut: Proxy | undefined;
  return {
    everyMs: [5_000, 7_000],
    forMs: [500, 4_500],
    survives: FAILOVER,
    begin() {
      if (proxies === null) return Promise.reject(new Error("the servers were started without proxies"));
      cut = proxies[strikes % 2];
      strikes += 1;
      cut?.cut();
      return Promise.resolve();
    },
    end() {
      cut?.heal();
      return Promise.resolve();
    },
  };
}

async function takenOver(by: MariadbNode): Promise<void> {
  const name = await nameOf(by);
  const deadline = performance.now() + TAKEN_OVER_MS;
  while ((await primaryBy(by)) !== name) {
    if (performance.now() > deadline) throw new Error("the other server did not take over");
    await sleep(LOOK_EVERY_MS);
  }
}

/** The primary, as this server knows it. */
async function primaryBy(node: MariadbNode): Promise<string> {
  const [row] = await node.query("SELECT server FROM holdfast_primary ORDER BY since_us DESC LIMIT 1");
  return String(row?.["server"]);
}

async function nameOf(node: MariadbNode): Promise<string> {
  const [row] = await node.query("SELECT CONCAT(@@server_id, '@', @@hostname, ':', @@port) AS me");
  return String(row?.["me"]);
}
