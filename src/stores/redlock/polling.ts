// How proposals and ends reach the nodes: written once for all of them, together with whatever else goes to a node in the same turn
// of the event loop.

import type { Io, Request } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import type { Names } from "../redis/names.ts";
import { type Patience, type Reply, textOf } from "../redis/port.ts";
import type { Standing } from "./attempt.ts";
import { BallotItems } from "./ballot-items.ts";
import { Desk } from "./desk.ts";
import type { Membership } from "./membership.ts";
import type { Node } from "./node.ts";
import type { Standings } from "./standings.ts";
import { JUMPED, type NodeAnswer, readAttempt } from "./words.ts";

/** Sent now or not at all: a client must not queue it for a node that is not connected. */
const AT_ONCE: Patience = { signal: new AbortController().signal, timeoutMs: 0 };

export interface PollingDeps {
  readonly names: Names;
  readonly markerKey: string;
  /** What every script begins with. */
  readonly head: readonly string[];
  readonly standings: Standings;
  readonly membership: Membership;
  readonly system: System;
}

export class Polling {
  readonly #deps: PollingDeps;
  readonly #desks: ReadonlyMap<Node, Desk>;
  readonly #items = new BallotItems();
  #closed = false;

  constructor(nodes: readonly Node[], deps: PollingDeps) {
    this.#deps = deps;
    this.#desks = new Map(
      nodes.map((node) => [node, new Desk(node, deps.markerKey, deps.head, deps.system)]),
    );
  }

  /** Gives the way to put one proposal to a node. A node that says that it may not vote is helped, and asked once more if it then may. */
  proposal(request: Request, standing: Standing, fence: number, io: Io): (node: Node) => Promise<NodeAnswer> {
    const { standings, membership } = this.#deps;
    const record = this.#record(request);
    const item = this.#items.proposal(request, standing, fence, standings.oldestOpen(request));
    const put = async (node: Node): Promise<NodeAnswer> => {
      node.graceMs = Math.min(node.graceMs, request.graceMs);
      const reply = await this.#desk(node).ask(record, item, io);
      return node.jump === null ? readAttempt(reply) : JUMPED;
    };
    return async (node) => {
      const answer = await put(node);
      if (answer.kind !== "out" || !(await membership.mend(node, answer))) return answer;
      return put(node);
    };
  }

  /**
   * Puts a proposal that was granted to those who were spared, so that the lease survives the loss of a node that granted it. At the
   * end of this turn of the loop: a lease that only touched something is over by then, and costs them nothing.
   */
  join(standing: Standing, put: (node: Node) => Promise<NodeAnswer>): void {
    process.nextTick(() => {
      const { spared } = standing;
      standing.spared = [];
      if (this.#closed) return;
      // Whether they accept is theirs to say: the majority stands.
      for (const node of spared) put(node).catch(() => {});
    });
  }

  /** The request has ended. Gives the way to tell a node, which says "1" if it held the key. */
  ending(request: Request, used: string, io: Io): (node: Node) => Promise<string> {
    const { standings } = this.#deps;
    const { turn, spared } = standings.end(request);
    const record = this.#record(request);
    const item = this.#items.end(request, turn, used, standings.oldestOpen(request));
    // Those who were spared have nothing to end: they are of the same mind.
    return async (node) =>
      spared.includes(node) ? "1" : textOf(await this.#desk(node).ask(record, item, io));
  }

  /** Takes a proposal back: on one node, or on all. Not waited for: whoever asks next comes after it on the same connection. */
  undo(request: Request, standing: Standing, fence: number, nodes: readonly Node[]): void {
    // What is closed has ended everything, and its connections are gone.
    if (this.#closed) return;
    const { standings, head } = this.#deps;
    const { id, label, queue } = request;
    const { turn, birth } = standing;
    const record = this.#record(request);
    const withdraw = (node: Node): Promise<Reply> => {
      const args = [id, String(turn), String(fence), label, "1", String(birth)];
      return node.script("withdraw", [record], [...head, ...args], AT_ONCE);
    };
    const end = (node: Node): Promise<Reply> => {
      const item = this.#items.end(request, turn, String(fence), standings.oldestOpen(request));
      return this.#desk(node).ask(record, item, AT_ONCE);
    };
    for (const node of nodes) (queue ? withdraw(node) : end(node)).catch(() => {});
  }

  close(): void {
    this.#closed = true;
  }

  #desk(node: Node): Desk {
    return this.#desks.get(node) as Desk;
  }

  #record(request: Request): string {
    return this.#deps.names.record(request.keys[0] as string);
  }
}
