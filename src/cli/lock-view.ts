// One lock as `ls` and `inspect` show it: as JSON (docs/reference/command.md has the schema) and as text.

import type { HolderInfo, LockInfo, WaiterInfo } from "../surface.ts";
import { escapeControls, formatDuration, formatName } from "./format.ts";

export const LS_HEAD: readonly string[] = ["KEY", "HOLDERS", "FENCE", "HELD", "LEFT", "WAITING", "LABEL"];

/** `info` is null for a key that nobody holds or waits for. */
export function lockJson(key: string, info: LockInfo | null): Record<string, unknown> {
  return {
    key,
    free: info === null,
    limit: info?.limit ?? null,
    holders: (info?.holders ?? []).map(holderJson),
    waiters: info === null ? [] : (info.waiters?.map(waiterJson) ?? null),
    ...(info?.nodes === undefined ? {} : { nodes: info.nodes }),
  };
}

function holderJson(holder: HolderInfo): Record<string, unknown> {
  return {
    label: holder.label,
    mode: holder.mode,
    permits: holder.permits,
    fence: String(holder.fence),
    heldMs: Math.round(holder.heldMs),
    remainingMs: Math.round(holder.remainingMs),
    kept: holder.kept === true,
    waitingFor: holder.waitingFor ?? null,
    revoked: holder.revoked ?? null,
  };
}

function waiterJson({ label, mode, permits, waitedMs }: WaiterInfo): Record<string, unknown> {
  return { label, mode, permits, waitedMs: Math.round(waitedMs) };
}

/** One line of `ls`. With several holders: the newest fence, the longest hold, the latest end. */
export function lockRow(info: LockInfo): string[] {
  const { holders, waiters } = info;
  const waiting = waiters === null ? "?" : String(waiters.length);
  const [first] = holders;
  if (first === undefined) return [formatName(info.key), "-", "-", "-", "-", waiting, "-"];
  const fence = holders.reduce((most, holder) => (holder.fence > most ? holder.fence : most), first.fence);
  const held = Math.max(...holders.map((holder) => holder.heldMs));
  const left = Math.max(...holders.map((holder) => holder.remainingMs));
  const others = holders.length > 1 ? ` and ${holders.length - 1} more` : "";
  return [
    formatName(info.key),
    describeHolders(info),
    String(fence),
    formatDuration(held),
    formatDuration(left),
    waiting,
    formatName(first.label) + others,
  ];
}

function describeHolders({ holders, limit }: LockInfo): string {
  const permits = holders.reduce((sum, holder) => sum + holder.permits, 0);
  if (limit > 1) return `${permits}/${limit}`;
  if (holders.every((holder) => holder.kept === true)) return "kept";
  return holders.some((holder) => holder.mode === "shared") ? `${holders.length} shared` : "1";
}

/** The lines of `inspect`. */
export function lockLines(key: string, info: LockInfo | null): string[] {
  if (info === null) return [`${formatName(key)} is free`];
  const kind = info.limit > 1 ? ` (a semaphore of ${info.limit})` : "";
  const holders = info.holders.map((holder) => `  held by ${describeHolder(holder)}`);
  const waiters = info.waiters?.map((waiter) => `  waiting: ${describeWaiter(waiter)}`);
  const count = `${info.holders.length} holding, ${info.waiters?.length ?? "?"} waiting`;
  return [
    `${formatName(key)}${kind}: ${count}`,
    ...holders,
    ...(waiters ?? ["  this store does not record waiters"]),
    ...(info.nodes ?? []).map(({ node, reason }) => `  ${formatName(node)}: ${escapeControls(reason)}`),
  ];
}

function describeHolder(holder: HolderInfo): string {
  const parts = [
    `for ${formatDuration(holder.heldMs)}`,
    `${formatDuration(holder.remainingMs)} left`,
    `fence ${holder.fence}`,
  ];
  if (holder.mode === "shared") parts.push("shared");
  if (holder.permits > 1) parts.push(`${holder.permits} permits`);
  if (holder.kept === true) parts.push("kept by --at-least, its command has ended");
  if (holder.waitingFor !== undefined) parts.push(`waiting for ${formatName(holder.waitingFor)}`);
  if (holder.revoked !== undefined) parts.push(`revoked: ${formatName(holder.revoked)}`);
  return `${formatName(holder.label)} ${parts.join(", ")}`;
}

function describeWaiter(waiter: WaiterInfo): string {
  const shared = waiter.mode === "shared" ? ", shared" : "";
  const permits = waiter.permits > 1 ? `, ${waiter.permits} permits` : "";
  return `${formatName(waiter.label)} for ${formatDuration(waiter.waitedMs)}${shared}${permits}`;
}

/** The holders in a few words; empty if none is known. */
export function heldBy(holders: readonly { readonly label: string; readonly heldMs: number }[]): string {
  const shown = holders
    .slice(0, 3)
    .map((holder) => `${formatName(holder.label)} for ${formatDuration(holder.heldMs)}`);
  const more = holders.length > shown.length ? ` and ${holders.length - shown.length} more` : "";
  return shown.length === 0 ? "" : `held by ${shown.join(", ")}${more}`;
}
