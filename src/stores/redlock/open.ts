// Opens the store: at least a majority of the nodes, all of them different, each registered so that it may
// vote.

import type { StoreEnv } from "../../core/store.ts";
import { connectToNode, type Driver, portOf } from "../redis/client/connect.ts";
import { rejectEvicting, rejectFew, rejectSame } from "./health.ts";
import { Node } from "./node.ts";
import { count } from "./quorum-call.ts";
import { RedlockOpenStore, type RedlockSettings } from "./store.ts";
import type { NotVoting } from "./script-replies.ts";

/** A slower node is registered with its first vote. */
const LONGEST_REGISTRATION_MS = 300;

export function openRedlock(
  given: readonly (string | object)[],
  driver: Driver | undefined,
  env: StoreEnv,
  settings: RedlockSettings,
): Promise<RedlockOpenStore> {
  rejectFew(given.length, env.allow);
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
  const registrationMs = Math.min(LONGEST_REGISTRATION_MS, settings.nodeTimeoutMs);
  try {
    await store.nodeSet.open();
    // Also where nobody waits: holders hear of a revocation. Nothing depends on it, so it is not awaited for
    // long.
    const listening = Promise.race([store.listen(), after(env, registrationMs)]);
    const { votes } = await store.nodeSet.ask<NotVoting | null, never>(
      {
        ask: (node) => store.membership.registerNode(node),
        decide: () => null,
        nodeTimeoutMs: registrationMs,
      },
      { timeoutMs: registrationMs },
    );
    rejectSame(nodes);
    rejectEvicting(votes);
    if (count(votes, (answer) => answer?.why === "ready") > 0) await store.membership.readmitAll();
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
