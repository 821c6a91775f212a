// Which nodes may vote. A node that was restarted or emptied may have forgotten locks and fences: two
// majorities would no longer share a node that remembers. A node whose clock jumped may have ended leases
// early. Such a node is in quarantine, and does not vote until
// 1. clients have watched it for 1.2 times the longest ttl and its grace, by their own monotonic clocks.
//    Whatever it had granted is over then, and whatever was asked of it is decided. The clock of the node
//    proves nothing, and neither does its uptime, which follows that clock;
// 2. and then a majority of the others was read for the largest fence that they accepted, which becomes its
//    floor. The order matters: a proposal that the node accepted before it was killed may reach its majority
//    after an earlier reading. Where a majority of the nodes is new (a first start, or a power cut that
//    emptied all) there is nobody to read from, and the clock alone keeps fences growing.

import type { Finding, StoreNotice } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { type CallContext, listOf, type Reply, textOf } from "../redis/client/port.ts";
import { escapeGlob } from "../redis/commands/keys.ts";
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import { evictingError } from "./errors.ts";
import type { NodeSet } from "./node-set.ts";
import type { Node } from "./node.ts";
import {
  type NotVoting,
  notVoting,
  describeNotVoting,
  readInspection,
  readNotVoting,
} from "./script-replies.ts";

/** Markers are brought up to date, and old records swept, about once in so many ms. */
const REFRESH_MS = 600_000;
/** A node in quarantine is watched at most so often. */
const WATCH_EVERY_MS = 100;
/** Reading all records of a node may take a while. */
const READ_ALL_MS = 10_000;
const NO_DEADLINE: CallContext = { signal: NEVER_ABORTED };

type MembershipScript = "inspect" | "maxFence" | "quarantine" | "readmit" | "register" | "sweep";

export interface MembershipOptions {
  readonly markerKey: string;
  /** Fits the records of all keys. */
  readonly pattern: string;
  readonly head: readonly string[];
  readonly maxTtlMs: number;
  /** A node without a marker is believed to be new. */
  readonly fresh: boolean;
  /** A node that may evict is accepted. */
  readonly evicting: boolean;
  readonly system: System;
}

interface MaxFence {
  readonly run: string;
  readonly voting: boolean;
  readonly ready: boolean;
  readonly most: number;
}

export class Membership {
  readonly #nodeSet: NodeSet;
  readonly #options: MembershipOptions;
  #readmittingAll: Promise<ReadonlySet<Node>> | null = null;
  #judging: Promise<void> | null = null;
  readonly #readmitting = new Map<Node, Promise<boolean>>();
  readonly #reported = new Map<Node, string>();
  #refreshedMs: number;
  /** Called when a node is found that does not vote. */
  report: (notice: StoreNotice) => void = () => {};

  constructor(nodeSet: NodeSet, options: MembershipOptions) {
    this.#nodeSet = nodeSet;
    this.#options = options;
    this.#refreshedMs = options.system.monoMs();
  }

  /**
   * Brings the marker of a node up to date. Resolves to what keeps it from voting, or null. Rejects a node
   * that may evict (P19).
   */
  async registerNode(node: Node): Promise<NotVoting | null> {
    node.durable = await this.#isDurable(node);
    const { maxTtlMs, fresh, evicting } = this.#options;
    const flag = (on: boolean): string => (on ? "1" : "0");
    const { system } = this.#options;
    // Only what passed between the answer to one contact and the send of the next has certainly passed at the
    // node.
    const sinceMs = node.watch === null ? 0 : Math.max(0, Math.floor(system.monoMs() - node.watch.readMs));
    const settings = [String(maxTtlMs), flag(node.durable), flag(fresh), node.run, flag(evicting)];
    const args = [...settings, node.watch?.seen ?? "", String(sinceMs)];
    const reply = listOf(await this.#run(node, "register", args)).map(textOf);
    const [run = "", state, cause = "", leftMs, seen = "", sweeps] = reply;
    node.run = run;
    if (state === "evicting") throw evictingError(node.name, cause);
    node.watch = { seen, readMs: system.monoMs() };
    if (sweeps === "1") this.#sweep(node).catch(() => {});
    return state === "voting" ? null : notVoting(state, cause, leftMs);
  }

  /** Helps a node that may not vote. Resolves to whether it votes now, and never rejects. */
  tryReadmit(node: Node, out: NotVoting): Promise<boolean> {
    const running =
      this.#readmitting.get(node) ??
      this.#tryReadmit(node, out).finally(() => this.#readmitting.delete(node));
    this.#readmitting.set(node, running);
    return running;
  }

  async #tryReadmit(node: Node, first: NotVoting): Promise<boolean> {
    try {
      if (first.why === "jumped") {
        this.#judging ??= this.#judgeJumps().finally(() => {
          this.#judging = null;
        });
        await this.#judging;
        return node.jump === null;
      }
      const out =
        first.why === "ready" || this.#isWatched(node, first) ? first : await this.registerNode(node);
      if (out === null) return true;
      if (out.why === "ready") return (await this.readmitAll()).has(node);
      this.#announce(node, out);
    } catch {
      // It is asked again with the next vote.
    }
    return false;
  }

  #isWatched({ watch }: Node, { why }: NotVoting): boolean {
    if (why !== "waiting" || watch === null) return false;
    return this.#options.system.monoMs() - watch.readMs < WATCH_EVERY_MS;
  }

  /**
   * Clocks of nodes moved against this machine's. Where most of them moved the same way, it was this machine
   * that stood still or was corrected, and they count as before. Otherwise these nodes count as having
   * forgotten.
   */
  async #judgeJumps(): Promise<void> {
    const { nodes, majority } = this.#nodeSet;
    const { system } = this.#options;
    const { votes } = await this.#nodeSet.ask<null, never>(
      {
        ask: async (node) => {
          const sentMs = system.monoMs();
          node.readClock(readInspection(await this.#run(node, "inspect", [])).clock, sentMs);
          return null;
        },
        decide: () => null,
      },
      { timeoutMs: READ_ALL_MS },
    );
    const jumped = nodes.filter(({ jump }) => jump !== null);
    const forward = jumped.filter(({ jump }) => (jump?.movedMs ?? 0) > 0);
    const back = jumped.filter((node) => !forward.includes(node));
    const alike = [forward, back].find(({ length }) => length >= majority) ?? [];
    for (const node of alike) node.acceptJump();
    if (alike.length > 0)
      nodes.filter((_node, at) => votes[at]?.state !== "answered").forEach((node) => node.forgetClock());
    await Promise.allSettled(
      jumped
        .filter((node) => !alike.includes(node))
        .map(async (node) => {
          const jumpMs = Math.round(node.jump?.movedMs ?? 0);
          await this.#run(node, "quarantine", [node.quarantine]);
          node.acceptJump();
          this.report({ node: node.name, jumpMs });
        }),
    );
  }

  /** Deletes the records of keys that nobody has used for long, a page at a time. */
  async #sweep(node: Node): Promise<void> {
    const pattern = this.#globPrefix(node) + this.#options.pattern;
    let cursor = "0";
    do cursor = textOf(await this.#run(node, "sweep", [cursor, pattern]));
    while (cursor !== "0");
  }

  /** Readmits all nodes whose quarantine is over. Resolves to the nodes that vote now. */
  readmitAll(): Promise<ReadonlySet<Node>> {
    this.#readmittingAll ??= this.#readmitAll().finally(() => {
      this.#readmittingAll = null;
    });
    return this.#readmittingAll;
  }

  /** Keeps the markers up to date; called with every attempt. */
  refresh(): void {
    const nowMs = this.#options.system.monoMs();
    if (nowMs - this.#refreshedMs < REFRESH_MS) return;
    this.#refreshedMs = nowMs;
    for (const node of this.#nodeSet.nodes) this.registerNode(node).catch(() => {});
  }

  async #readmitAll(): Promise<ReadonlySet<Node>> {
    const { majority, nodes } = this.#nodeSet;
    const done = await this.#readyNodes();
    // Only now, when it is certain that they have been watched for long enough, the others are read.
    const { votes } = await this.#nodeSet.ask<MaxFence, never>(
      { ask: (node) => this.#readMaxFence(node), decide: () => null, nodeTimeoutMs: READ_ALL_MS },
      { timeoutMs: READ_ALL_MS },
    );
    const read = votes.flatMap((vote, at) =>
      vote.state === "answered" ? [{ node: nodes[at] as Node, ...vote.answer }] : [],
    );
    const voting = read.filter((one) => one.voting);
    const ready = read.filter((one) => one.ready && done.has(one.node));
    const now = new Set(voting.map(({ node }) => node));
    // Every majority that ever decided shares a node with those that remember, or a majority has forgotten.
    if (voting.length <= nodes.length - majority && ready.length < majority) return now;
    const floor = Math.max(0, ...read.map(({ most }) => most));
    await Promise.allSettled(
      ready.map(async ({ node, run }) => {
        if (Number(textOf(await this.#run(node, "readmit", [run, String(floor)]))) === 1) now.add(node);
      }),
    );
    return now;
  }

  async #readyNodes(): Promise<ReadonlySet<Node>> {
    const { votes } = await this.#nodeSet.ask<NotVoting | null, never>(
      {
        ask: async (node) => readNotVoting(listOf(await this.#run(node, "inspect", []))[0]),
        decide: () => null,
      },
      { timeoutMs: READ_ALL_MS },
    );
    const ready = this.#nodeSet.nodes.filter((_node, at) => {
      const vote = votes[at];
      return vote?.state === "answered" && vote.answer?.why === "ready";
    });
    return new Set(ready);
  }

  /**
   * The largest fence of all records of a node. It must be the same server from the first page to the last.
   */
  async #readMaxFence(node: Node): Promise<MaxFence> {
    const pattern = this.#globPrefix(node) + this.#options.pattern;
    let [cursor, most] = ["0", 0];
    let [voting, ready] = [true, true];
    const runs = new Set<string>();
    do {
      const reply = await this.#run(node, "maxFence", [cursor, pattern]);
      const [run, state, next, top] = listOf(reply).map(textOf);
      runs.add(run ?? "");
      voting &&= state === "voting";
      ready &&= state === "ready";
      most = Math.max(most, Number(top));
      cursor = next ?? "0";
    } while (cursor !== "0");
    const [run = ""] = runs;
    if (runs.size > 1) throw new Error("it was restarted while it was read");
    return { run, voting, ready, most };
  }

  #globPrefix(node: Node): string {
    return escapeGlob(node.port?.keyPrefix ?? "");
  }

  /**
   * A setting that this user may not read counts as no. A lost connection does not: a "no" puts the node into
   * quarantine for every process.
   */
  async #isDurable(node: Node): Promise<boolean> {
    const setting = async (name: string): Promise<string> =>
      textOf(listOf(await node.send(["CONFIG", "GET", name], NO_DEADLINE))[1]);
    try {
      return (await setting("appendonly")) === "yes" && (await setting("appendfsync")) === "always";
    } catch (error) {
      if (error instanceof Error && /^(NOPERM|ERR)\b/.test(error.message)) return false;
      throw error;
    }
  }

  /** Once per quarantine: attempts ask it again and again. */
  #announce(node: Node, out: NotVoting): void {
    const quarantine = `${node.run} ${node.watch?.seen.split(" ")[0] ?? ""}`;
    if (this.#reported.get(node) === quarantine) return;
    this.#reported.set(node, quarantine);
    this.report({ node: node.name, what: describeNotVoting(out), votesInMs: out.leftMs });
  }

  #run(node: Node, name: MembershipScript, args: readonly string[]): Promise<Reply> {
    const { markerKey, head } = this.#options;
    return node.script(name, [markerKey], [...head, ...args], NO_DEADLINE);
  }
}

/** For `check()`. */
export function absenceFinding(node: string, out: NotVoting): Finding {
  return {
    id: "quarantine",
    level: "warning",
    what: `${node} ${describeNotVoting(out)}`,
    why: "it may have forgotten or ended leases, so the others must be a majority without it",
    fix: "wait; with appendonly yes and appendfsync always a restart forgets nothing and costs no time",
  };
}
