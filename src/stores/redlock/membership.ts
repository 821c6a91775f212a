// Who may vote. A node that was restarted or emptied may have forgotten locks and fences, and two majorities
// would no longer share a node that remembers. A node whose clock jumped may have ended leases early. So it
// is in quarantine and does not vote until
// 1. clients have watched it for 1.2 times the longest ttl and its grace, by their own monotonic clocks:
//    whatever it had granted is over, whatever was asked of it is decided. The clock of the node proves
//    nothing, and neither does its uptime, which follows it;
// 2. and then a majority of the others has been read for the largest fence that they have accepted, which becomes its floor.
// The order matters: a proposal that it accepted before it was killed may reach its majority after an earlier reading.
// Where a majority of the nodes is new (a first start, or a power cut that emptied all) there is nobody to read from, and
// the clock alone keeps fences growing.

import type { Finding, StoreNotice } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { type Patience, listOf, type Reply, textOf } from "../redis/port.ts";
import { evictingError } from "./errors.ts";
import type { Fleet } from "./fleet.ts";
import type { Node } from "./node.ts";
import { type Out, outOf, outWords, readLook, readOut } from "./words.ts";

/** Markers are brought up to date, and old records swept, about once in so many ms. */
const REFRESH_MS = 600_000;
/** A node in quarantine is watched at most so often. */
const WATCH_EVERY_MS = 100;
/** Reading all records of a node may take a while. */
const SURVEY_MS = 10_000;
const FOREVER: Patience = { signal: new AbortController().signal };

type MembershipScript = "adopt" | "look" | "quarantine" | "rejoin" | "survey" | "sweep";

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

interface Survey {
  readonly run: string;
  readonly voting: boolean;
  readonly ready: boolean;
  readonly most: number;
}

export class Membership {
  readonly #fleet: Fleet;
  readonly #options: MembershipOptions;
  #rejoining: Promise<ReadonlySet<Node>> | null = null;
  #judging: Promise<void> | null = null;
  readonly #mending = new Map<Node, Promise<boolean>>();
  readonly #told = new Map<Node, string>();
  #refreshedMs: number;
  /** Told when a node is found that does not vote. */
  tell: (notice: StoreNotice) => void = () => {};

  constructor(fleet: Fleet, options: MembershipOptions) {
    this.#fleet = fleet;
    this.#options = options;
    this.#refreshedMs = options.system.monoMs();
  }

  /** Says hello to a node: its marker is brought up to date. Gives what keeps it from voting, or null. Refuses one that may evict (P19). */
  async adopt(node: Node): Promise<Out | null> {
    node.durable = await this.#isDurable(node);
    const { maxTtlMs, fresh, evicting } = this.#options;
    const flag = (on: boolean): string => (on ? "1" : "0");
    const { system } = this.#options;
    // Only what passed between the answer to one contact and the send of the next has certainly passed at the
    // node.
    const sinceMs = node.watch === null ? 0 : Math.max(0, Math.floor(system.monoMs() - node.watch.readMs));
    const settings = [String(maxTtlMs), flag(node.durable), flag(fresh), node.run, flag(evicting)];
    const args = [...settings, node.watch?.seen ?? "", String(sinceMs)];
    const reply = listOf(await this.#run(node, "adopt", args)).map(textOf);
    const [run = "", state, cause = "", leftMs, seen = "", sweeps] = reply;
    node.run = run;
    if (state === "evicting") throw evictingError(node.name, cause);
    node.watch = { seen, readMs: system.monoMs() };
    if (sweeps === "1") this.#sweep(node).catch(() => {});
    return state === "voting" ? null : outOf(state, cause, leftMs);
  }

  /** A node that said it may not vote is helped as far as it can be. Resolves to whether it votes now; never rejects. */
  mend(node: Node, out: Out): Promise<boolean> {
    const under = this.#mending.get(node) ?? this.#mend(node, out).finally(() => this.#mending.delete(node));
    this.#mending.set(node, under);
    return under;
  }

  async #mend(node: Node, first: Out): Promise<boolean> {
    try {
      if (first.why === "jumped") {
        this.#judging ??= this.#judgeJumps().finally(() => {
          this.#judging = null;
        });
        await this.#judging;
        return node.jump === null;
      }
      const out = first.why === "ready" || this.#isWatched(node, first) ? first : await this.adopt(node);
      if (out === null) return true;
      if (out.why === "ready") return (await this.rejoin()).has(node);
      this.#announce(node, out);
    } catch {
      // It is asked again with the next vote.
    }
    return false;
  }

  #isWatched({ watch }: Node, { why }: Out): boolean {
    if (why !== "waiting" || watch === null) return false;
    return this.#options.system.monoMs() - watch.readMs < WATCH_EVERY_MS;
  }

  /**
   * Clocks of nodes moved against this machine's. Where most of them moved the same way, it was this machine
   * that stood still or was corrected, and they count as before. Otherwise these nodes count as having
   * forgotten.
   */
  async #judgeJumps(): Promise<void> {
    const { nodes, majority } = this.#fleet;
    const { system } = this.#options;
    const { votes } = await this.#fleet.ask<null, never>(
      {
        ask: async (node) => {
          const sentMs = system.monoMs();
          node.readClock(readLook(await this.#run(node, "look", [])).clock, sentMs);
          return null;
        },
        decide: () => null,
      },
      { timeoutMs: SURVEY_MS },
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
          this.tell({ node: node.name, jumpMs });
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

  /** Takes in all nodes that have sat out. Resolves to those that vote now. */
  rejoin(): Promise<ReadonlySet<Node>> {
    this.#rejoining ??= this.#rejoin().finally(() => {
      this.#rejoining = null;
    });
    return this.#rejoining;
  }

  /** Keeps the markers up to date; called with every attempt. */
  refresh(): void {
    const nowMs = this.#options.system.monoMs();
    if (nowMs - this.#refreshedMs < REFRESH_MS) return;
    this.#refreshedMs = nowMs;
    for (const node of this.#fleet.nodes) this.adopt(node).catch(() => {});
  }

  async #rejoin(): Promise<ReadonlySet<Node>> {
    const { majority, nodes } = this.#fleet;
    const sat = await this.#haveSatOut();
    // Only now, when it is certain that they have sat out, the others are read.
    const { votes } = await this.#fleet.ask<Survey, never>(
      { ask: (node) => this.#survey(node), decide: () => null, patienceMs: SURVEY_MS },
      { timeoutMs: SURVEY_MS },
    );
    const read = votes.flatMap((vote, at) =>
      vote.state === "answered" ? [{ node: nodes[at] as Node, ...vote.answer }] : [],
    );
    const voting = read.filter((one) => one.voting);
    const ready = read.filter((one) => one.ready && sat.has(one.node));
    const now = new Set(voting.map(({ node }) => node));
    // Every majority that ever decided shares a node with those that remember, or a majority has forgotten.
    if (voting.length <= nodes.length - majority && ready.length < majority) return now;
    const floor = Math.max(0, ...read.map(({ most }) => most));
    await Promise.allSettled(
      ready.map(async ({ node, run }) => {
        if (Number(textOf(await this.#run(node, "rejoin", [run, String(floor)]))) === 1) now.add(node);
      }),
    );
    return now;
  }

  async #haveSatOut(): Promise<ReadonlySet<Node>> {
    const { votes } = await this.#fleet.ask<Out | null, never>(
      {
        ask: async (node) => readOut(listOf(await this.#run(node, "look", []))[0]),
        decide: () => null,
      },
      { timeoutMs: SURVEY_MS },
    );
    const ready = this.#fleet.nodes.filter((_node, at) => {
      const vote = votes[at];
      return vote?.state === "answered" && vote.answer?.why === "ready";
    });
    return new Set(ready);
  }

  /** The largest fence of all records of a node. It must be the same server from the first page to the last. */
  async #survey(node: Node): Promise<Survey> {
    const pattern = this.#globPrefix(node) + this.#options.pattern;
    let [cursor, most] = ["0", 0];
    let [voting, ready] = [true, true];
    const runs = new Set<string>();
    do {
      const reply = await this.#run(node, "survey", [cursor, pattern]);
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
    return (node.port?.keyPrefix ?? "").replace(/[*?[\]\\^]/g, (char) => `\\${char}`);
  }

  /**
   * What this user may not read counts as no. A lost connection does not: a "no" makes the node sit out for
   * every process.
   */
  async #isDurable(node: Node): Promise<boolean> {
    const setting = async (name: string): Promise<string> =>
      textOf(listOf(await node.send(["CONFIG", "GET", name], FOREVER))[1]);
    try {
      return (await setting("appendonly")) === "yes" && (await setting("appendfsync")) === "always";
    } catch (error) {
      if (error instanceof Error && /^(NOPERM|ERR)\b/.test(error.message)) return false;
      throw error;
    }
  }

  /** Once per quarantine: attempts ask it again and again. */
  #announce(node: Node, out: Out): void {
    const quarantine = `${node.run} ${node.watch?.seen.split(" ")[0] ?? ""}`;
    if (this.#told.get(node) === quarantine) return;
    this.#told.set(node, quarantine);
    this.tell({ node: node.name, what: outWords(out), votesInMs: out.leftMs });
  }

  #run(node: Node, name: MembershipScript, args: readonly string[]): Promise<Reply> {
    const { markerKey, head } = this.#options;
    return node.script(name, [markerKey], [...head, ...args], FOREVER);
  }
}

/** For `check()`. */
export function absenceFinding(node: string, out: Out): Finding {
  return {
    id: "quarantine",
    level: "warning",
    what: `${node} ${outWords(out)}`,
    why: "it may have forgotten or ended leases, so the others have to be a majority without it",
    fix: "wait; with appendonly yes and appendfsync always a restart forgets nothing and costs no time",
  };
}
