// One short run per store, in which the faults that matter most strike in turn, and a few more that the
// seed chooses. Clocks are not set here: their servers have to be started for it.

import { afterAll, describe, expect, it } from "vitest";
import { MIXED } from "../../faults/plugins/index.ts";
import { prepare, type Prepared, runOn } from "../../faults/run.ts";
import type { RunSettings } from "../../faults/settings.ts";

const PASS = { fault: MIXED, seconds: 4, clients: 4, tasks: 4, cheats: [] } as const;
/** A quiet machine reaches 130 to 600; one with a load of 27 has had 14. */
const LEAST_GRANTS = 5;

const CLIENTS = ["kill", "pause", "shutdown"];
const ALL = [...CLIENTS, "server-freeze", "swallowed-replies"];
/**
 * Which faults must have struck. Servers of Sentinel and Cluster send their clients on to each other, so no
 * client of theirs can be sent through a proxy.
 */
type Passes = Readonly<Record<string, readonly string[]>>;
/** Every store in its default mode. */
export const DEFAULT_MODES: Passes = {
  redis: ALL,
  zookeeper: ALL,
  etcd: ALL,
  mysql: ALL,
  local: CLIENTS,
  postgres: ALL,
  redlock: ALL,
};
export const OTHER_MODES: Passes = {
  "postgres-advisory": ALL,
  "redis-cluster": [...CLIENTS, "primary-freeze"],
  "etcd-exclusive": ALL,
  "redis-sentinel": [...CLIENTS, "primary-freeze"],
  "mysql-row": ALL,
};
/** The same nodes with other files, and two servers of which one takes over: tried by command. */
export const COVERED: readonly string[] = ["redlock-aof", "redlock-rdb", "mysql-pair"];
/**
 * A primary that is replaced takes leases with it, so does a frozen leader of an old etcd, and session
 * locks end with their connection; nothing else may. Until that has struck, they are held to exclusion as
 * the others are.
 */
const MAY_BE_FENCED = [
  ...["redis-cluster", "redis-sentinel", "etcd", "etcd-exclusive"],
  ...["mysql-row", "postgres-advisory"],
];

/** `seed` chooses faults and their moments; a failure names the command that repeats the plan. */
export function testPasses(passes: Passes, seed: number): void {
  const stores = Object.keys(passes);
  const prepared = new Map<string, Promise<Prepared>>();
  /** Servers are started while the runs before theirs are under way. */
  const ahead = (store: string): Promise<Prepared> => {
    const settings: RunSettings = { ...PASS, seed, store };
    const ready = prepared.get(store) ?? prepare(settings);
    prepared.set(store, ready);
    // Whoever runs on it reports the failure.
    ready.catch(() => {});
    return ready;
  };

  async function outcomeOf(store: string): ReturnType<typeof runOn> {
    const ready = ahead(store);
    const next = stores[stores.indexOf(store) + 1];
    if (next !== undefined) void ahead(next);
    const started = await ready;
    prepared.delete(store);
    return runOn(started);
  }

  afterAll(async () => {
    for (const ready of prepared.values())
      await ready.then(
        (one) => one.stop(),
        () => {},
      );
  });

  describe.concurrent(`clients, seed ${seed}`, () => {
    for (const [store, kinds] of Object.entries(passes)) {
      it(`of ${store} keep every promise under several faults (P1 to P17)`, async () => {
        const { violations, figures, struck, kept } = await outcomeOf(store);
        const { seconds, clients } = PASS;
        const repeat = `npm run faults -- --store ${store} --fault ${MIXED} --seconds ${seconds} --clients ${clients} --seed ${seed}`;
        expect(violations, `histories in ${kept}; ${repeat}`).toEqual([]);
        expect(figures.fenceErrors, repeat).toBe(0);
        expect(figures.expected === "safe" || MAY_BE_FENCED.includes(store), repeat).toBe(true);
        expect(figures.grants, repeat).toBeGreaterThanOrEqual(LEAST_GRANTS);
        expect(Object.keys(struck), repeat).toEqual(expect.arrayContaining([...kinds]));
        expect(Math.min(...Object.values(struck)), `${repeat}: ${JSON.stringify(struck)}`).toBeGreaterThan(0);
      });
    }
  });
}
