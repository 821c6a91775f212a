// What a network does to one client at a time, by a proxy of its own in front of every server: cut both ways or one way,
// replies or pushes that never arrive, slowness, connections that break. The other clients see nothing of it and go on.

import type { Random } from "../../sim/world/random.ts";
import type { Client } from "../crew.ts";
import { Proxy } from "../proxy.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";

const SHORTEST_MS = 50;
const LONGEST_MS = 2_500;

interface Harm {
  readonly do: (proxy: Proxy, random: Random) => void;
  /** The harm is of connections for pushes alone. */
  readonly ofPushes?: boolean;
  /** How long it lasts, where that is another time than for the others. */
  readonly forMs?: readonly [number, number];
  /** What a store must declare to survive. */
  readonly survives?: string;
}

/** Server and client hear of it in the same moment: where a lock ends with its connection, its holder may be told too late. */
const BROKEN = "connection lost";

const SLOW_MS = [5, 250] as const;

const HARMS = {
  cut: { do: (proxy) => proxy.cut() },
  "cut-requests": { do: (proxy) => proxy.cut("requests") },
  "cut-replies": { do: (proxy) => proxy.cut("replies") },
  // A connection that has had replies swallowed is dropped at the healing.
  "swallowed-replies": { do: (proxy) => proxy.swallow("replies"), survives: BROKEN },
  "dropped-connections": { do: (proxy) => proxy.drop(), survives: BROKEN },
  // As after a NAT timeout, or when the host behind an address was replaced.
  "half-open": { do: (proxy) => proxy.halfOpen(), forMs: [2_000, 6_000], survives: BROKEN },
  "slow-network": { do: (proxy, random) => proxy.delay(random.between(...SLOW_MS)) },
} satisfies Record<string, Harm>;

const HARMS_OF_PUSHES = {
  "lost-pushes": { do: (proxy) => proxy.swallow("replies"), ofPushes: true },
  "late-pushes": { do: (proxy) => proxy.cut("replies"), ofPushes: true },
} satisfies Record<string, Harm>;

/** Longer than a session lives without a sign of its client. */
const HARMS_OF_SESSIONS = {
  "session-expiry": { do: (proxy) => proxy.cut(), forMs: [1_500, 5_000] },
} satisfies Record<string, Harm>;

export const sessionFaults: Readonly<Record<string, () => Plugin>> = Object.fromEntries(
  Object.entries(HARMS_OF_SESSIONS).map(([name, harm]) => [name, () => network(name, harm)]),
);

export const networkFaults: Readonly<Record<string, () => Plugin>> = Object.fromEntries(
  Object.entries(HARMS).map(([name, harm]) => [name, () => network(name, harm)]),
);

export const pushFaults: Readonly<Record<string, () => Plugin>> = Object.fromEntries(
  Object.entries(HARMS_OF_PUSHES).map(([name, harm]) => [name, () => network(name, harm)]),
);

function network(name: string, harm: Harm): Plugin {
  const proxies = new Map<string, readonly Proxy[]>();
  const harmed = new Map<Client, NodeJS.Timeout>();
  const heal = (client: Client): void => {
    clearTimeout(harmed.get(client));
    harmed.delete(client);
    for (const proxy of proxies.get(client.name) ?? []) proxy.heal();
  };
  return {
    name,
    everyMs: [100, 500],
    ...(harm.survives === undefined ? {} : { survives: harm.survives }),
    start({ crew, target }: Run): Promise<void> {
      const { through, servers, listens, told } = target;
      if (through === undefined || (told ?? servers).length === 0)
        throw new Error("clients of this store cannot be sent through a proxy");
      if (harm.ofPushes && listens === undefined)
        throw new Error("pushes of this store have no connection of their own");
      const only = harm.ofPushes ? listens : undefined;
      crew.hops.push(async (client, ports) => {
        const all = await Promise.all(ports.map((port) => Proxy.listen({ host: "127.0.0.1", port }, only)));
        proxies.set(client, all);
        const own = all.map(({ port }) => port);
        if (told !== undefined) for (const proxy of all) proxy.rename(ports, own);
        return own;
      });
      return nothing();
    },
    strike({ crew, mark }: Run, random: Random): Promise<void> {
      const client = crew.pick(random, 0);
      if (client === null || harmed.has(client)) return nothing();
      const ms = random.between(...(harm.forMs ?? [SHORTEST_MS, LONGEST_MS]));
      mark(`${name} of ${client.name} for ${ms.toFixed(0)} ms`);
      for (const proxy of proxies.get(client.name) ?? []) harm.do(proxy, random);
      harmed.set(client, setTimeout(heal, ms, client));
      return nothing();
    },
    stop(): Promise<void> {
      for (const client of [...harmed.keys()]) heal(client);
      return nothing();
    },
    async end(): Promise<void> {
      await Promise.all([...proxies.values()].flat().map((proxy) => proxy.close()));
    },
  };
}
