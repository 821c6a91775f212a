// Opening: as many nodes as can be had, at least a majority, all of them different, each greeted so that it may vote.

import type { StoreEnv } from "../../core/store.ts";
import { connectToNode, type Driver, portOf } from "../redis/clients.ts";
import { refuseEvicting, refuseFew, refuseSame } from "./check.ts";
import { count } from "./fleet.ts";
import { Node } from "./node.ts";
import { RedlockOpenStore, type RedlockSettings } from "./store.ts";
import type { Out } from "./words.ts";

/** Whoever is slower is greeted with the first vote. */
const LONGEST_GREETING_MS = 300;

export function openRedlock(
  given: readonly (string | object)[],
  driver: Driver | undefined,
  env: StoreEnv,
  settings: RedlockSettings,
): Promise<RedlockOpenStore> {
  refuseFew(given.length, env.allow);
  const nodes = given.map(
    (one, at) =>
      new Node(
        nameOf(one, at),
        () =>
          typeof one === "string" ? connectToNode(one, { driver }, env.system) : portOf(one, env.system),
        env.system,
      ),
  );
  return openNodes(nodes, env, settings);
}

/** However they are reached. */
export async function openNodes(
  nodes: readonly Node[],
  env: StoreEnv,
  settings: RedlockSettings,
): Promise<RedlockOpenStore> {
  const store = new RedlockOpenStore(nodes, env, settings);
  const greetingMs = Math.min(LONGEST_GREETING_MS, settings.nodeTimeoutMs);
  try {
    await store.fleet.open();
    // Wanted even where nobody waits: holders are told of a revocation by it. Nothing depends on it, so it is not waited for long.
    const listening = Promise.race([store.listen(), after(env, greetingMs)]);
    const { votes } = await store.fleet.ask<Out | null, never>(
      { ask: (node) => store.membership.adopt(node), decide: () => null, patienceMs: greetingMs },
      { timeoutMs: greetingMs },
    );
    refuseSame(nodes);
    refuseEvicting(votes);
    if (count(votes, (out) => out?.why === "ready") > 0) await store.membership.rejoin();
    await listening;
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

function after({ system }: StoreEnv, ms: number): Promise<void> {
  return new Promise((resolve) => {
    system.after(ms, resolve, "background");
  });
}

/** Never the whole URL: it may hold a password. */
function nameOf(node: string | object, at: number): string {
  const address = typeof node === "string" ? ` (${new URL(node).host})` : "";
  return `node ${at + 1}${address}`;
}
