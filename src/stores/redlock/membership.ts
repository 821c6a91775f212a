// Who may vote. A node that was restarted or emptied may have forgotten locks and fences, and two majorities would no longer
// share a node that remembers. So it does not vote until
// 1. the longest ttl has passed since it was started: whatever it had granted is over, whatever was asked of it is decided;
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
import { type Out, outWords, readOut } from "./words.ts";

/** Markers live for a week and are written anew once in so many ms. */
const REFRESH_MS = 3_600_000;
/** Reading all records of a node may take a while. */
const SURVEY_MS = 10_000;
const FOREVER: Patience = { signal: new AbortController().signal };

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
    const args = [String(maxTtlMs), flag(node.durable), flag(fresh), node.run, flag(evicting)];
    const [run, state, upMs, leftMs] = listOf(await this.#run(node, "adopt", args)).map(textOf);
    node.run = run ?? "";
    if (state === "evicting") throw evictingError(node.name, upMs ?? "");
    if (state === "voting") return null;
    return { kind: "out", why: state as Out["why"], upMs: Number(upMs), leftMs: Number(leftMs) };
  }

  /** A node that said it may not vote is helped as far as it can be. Resolves to whether it votes now; never rejects. */
  mend(node: Node, out: Out): Promise<boolean> {
    const under = this.#mending.get(node) ?? this.#mend(node, out).finally(() => this.#mending.delete(node));
    this.#mending.set(node, under);
    return under;
  }

  async #mend(node: Node, first: Out): Promise<boolean> {
    try {
      const out = first.why === "strange" ? await this.adopt(node) : first;
      if (out === null) return true;
      if (out.why === "ready") return (await this.rejoin()).has(node);
      this.#announce(node, out);
    } catch {
      // It is asked again with the next vote.
    }
    return false;
  }

  /** Takes in all nodes that have sat out. Resolves to those that vote now. */
  rejoin(): Promise<ReadonlySet<Node>> {
    this.#rejoining ??= this.#rejoin().finally(() => {
      this.#rejoining = null;
    });
    return this.#rejoining;
  }

  /** Keeps the markers from running out; called with every attempt. */
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

  /** Once per start of a node: attempts ask it again and again. */
  #announce(node: Node, out: Out): void {
    if (this.#told.get(node) === node.run) return;
    this.#told.set(node, node.run);
    this.tell({ node: node.name, what: outWords(out), votesInMs: out.leftMs });
  }

  #run(node: Node, name: "adopt" | "look" | "survey" | "rejoin", args: readonly string[]): Promise<Reply> {
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
    why: "it may have forgotten locks and fences, so the others have to be a majority without it",
    fix: "wait; with appendonly yes and appendfsync always a restart forgets nothing and costs no time",
  };
}
