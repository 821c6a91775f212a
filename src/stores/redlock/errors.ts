// Errors of nodes and disagreements as errors of ours: one reason per node, never a bare "no quorum" (P17).

import {
  InvalidArgumentError,
  QuorumError,
  StoreUnavailableError,
  UnsafeStoreError,
} from "../../core/errors.ts";
import { showKey } from "../../core/key.ts";
import type { NodeReason } from "../../core/store.ts";
import { EVICTION_FIX } from "../shared/eviction.ts";
import { isForeign, withoutArguments } from "../shared/redis-failure.ts";
import { tlsFailure } from "../shared/tls-failure.ts";

/** Why one node did not answer, in a few words. */
export function reasonOf(error: unknown): string {
  withoutArguments(error);
  const text = error instanceof Error ? error.message || error.name : String(error);
  if (isForeign(text))
    return "holds something under this name that holdfast did not write: give holdfast a namespace of its own";
  const tls = tlsFailure(error);
  if (tls !== null) return `${tls} (${firstLine(text)})`;
  if (text.startsWith("MISCONF")) return `cannot write to its disk, free some space: ${firstLine(text)}`;
  if (text.startsWith("OOM")) return `memory is full: ${firstLine(text)}`;
  if (/^NOPERM|user executing the script can't/.test(text))
    return (
      "this user may not do that, it needs +evalsha +eval +get +set +pexpire +time +info +publish " +
      `+subscribe +scan +type: ${firstLine(text)}`
    );
  return firstLine(text);
}

function firstLine(text: string): string {
  return (text.split("\n")[0] ?? "").slice(0, 200);
}

/** What node-redis, ioredis and sockets say of a connection that ended before the reply. */
const CONNECTION_LOST = /Socket closed unexpectedly|Disconnects client|Connection is closed|ECONNRESET|EPIPE/;

/** How the reason of a node in quarantine starts. The first use of a namespace looks the same. */
export const RESTARTED = "was restarted or emptied";

/** `doing` completes "a majority could not". */
export function quorumError(
  doing: string,
  key: string | undefined,
  nodes: readonly NodeReason[],
  needed: number,
  cause?: unknown,
): QuorumError {
  const about = key === undefined ? "" : ` of ${showKey(key)}`;
  const each = nodes.map(({ node, reason }) => `${node} ${reason}`).join("; ");
  const fresh = nodes.filter(({ reason }) => reason.startsWith(RESTARTED)).length;
  const hint =
    nodes.length - fresh >= needed
      ? ""
      : '. If holdfast has never used these nodes before, start once with allow: ["fresh-nodes"]';
  return new QuorumError(
    `no majority for the ${doing}${about}: ${needed} of ${nodes.length} nodes have to agree. ${each}${hint}`,
    { key, nodes, cause, disconnected: nodes.some(({ reason }) => CONNECTION_LOST.test(reason)) },
  );
}

export function evictingError(node: string, policy: string): UnsafeStoreError {
  return new UnsafeStoreError(
    `${node} may evict locks: its maxmemory-policy is ${firstLine(policy).trim()}`,
    {
      setting: "maxmemory-policy",
      fix: EVICTION_FIX,
    },
  );
}

export function closedError(key?: string): StoreUnavailableError {
  return new StoreUnavailableError("the redlock store is closed", { key, retryable: false });
}

/** A node that was restarted sits out for the longest ttl: nothing may last longer. */
export function rejectLong(key: string, ms: number, maxTtlMs: number): void {
  if (ms <= maxTtlMs) return;
  throw new InvalidArgumentError(
    `${showKey(key)} was asked for with ${ms} ms, and the redlock store is set to maxTtl ${maxTtlMs} ms: ` +
      "use a shorter ttl (it is renewed while held), or a larger maxTtl in every process",
    { key },
  );
}
