// The contract over N independent masters. Every call is one ballot: all nodes are asked at once, and the answer is given as soon
// as a majority has decided it. What it cannot know it throws, with one reason per node.

import type {
  AttemptAnswer,
  Finding,
  Guarantees,
  Io,
  LockInfo,
  LossReason,
  Note,
  OpenStore,
  ReleaseOptions,
  RenewAnswer,
  RenewItem,
  Request,
  RevokeAnswer,
  RevokeOptions,
  StoreEnv,
  StoreNotice,
} from "../../core/store.ts";
import { abandonEach } from "../shared/abandon-each.ts";
import { listOf, type Patience, type Reply, textOf } from "../redis/port.ts";
import { Names } from "../redis/names.ts";
import { attempt, type AttemptDeps, type Cookie } from "./attempt.ts";
import { findings } from "./check.ts";
import { closedError, quorumError, refuseLong } from "./errors.ts";
import { count, Fleet } from "./fleet.ts";
import { CLAIM_MS, redlockGuarantees } from "./guarantees.ts";
import { Listener } from "./listener.ts";
import { listed } from "./listing.ts";
import { Membership } from "./membership.ts";
import type { Node } from "./node.ts";
import { owned } from "./ownership.ts";
import { Proposals } from "./proposals.ts";
import { Polling } from "./polling.ts";
import type { Vote } from "./quorum.ts";
import { renewed } from "./renewals.ts";
import type { ScriptName } from "./scripts.generated.ts";
import { Standings } from "./standings.ts";
import { type Question, tally } from "./tally.ts";
import { lockInfo } from "./views.ts";
import { JUMPED, type Look, type Out, readLook, readOut } from "./words.ts";

/** Enough to tell a handful of processes from each other. */
const PROC_LENGTH = 16;

export interface RedlockSettings {
  readonly maxTtlMs: number;
  readonly nodeTimeoutMs: number;
}

export class RedlockOpenStore implements OpenStore<Cookie> {
  readonly guarantees: Guarantees = redlockGuarantees;
  readonly fleet: Fleet;
  readonly membership: Membership;
  readonly #names: Names;
  readonly #markerKey: string;
  readonly #listener: Listener;
  readonly #standings = new Standings();
  readonly #proposals: Proposals;
  readonly #settings: RedlockSettings;
  readonly #attempts: AttemptDeps;
  readonly #polling: Polling;
  /** What every script begins with. */
  readonly #head: readonly string[];
  #closed = false;

  constructor(nodes: readonly Node[], env: StoreEnv, settings: RedlockSettings) {
    const { system, namespace } = env;
    this.#settings = settings;
    this.#names = new Names(namespace);
    const proc = system.randomId().slice(0, PROC_LENGTH);
    this.#head = [this.#names.channels, proc, String(CLAIM_MS)];
    this.#markerKey = `${namespace}:node`;
    this.fleet = new Fleet(nodes, system, settings.nodeTimeoutMs);
    this.membership = new Membership(this.fleet, {
      markerKey: this.#markerKey,
      pattern: this.#names.pattern(""),
      head: this.#head,
      maxTtlMs: settings.maxTtlMs,
      fresh: env.allow.includes("fresh-nodes"),
      evicting: env.allow.includes("eviction"),
      system,
    });
    this.#listener = new Listener(nodes, this.#names.channels + proc);
    this.#proposals = new Proposals(system);
    this.#polling = new Polling(nodes, {
      names: this.#names,
      markerKey: this.#markerKey,
      head: this.#head,
      standings: this.#standings,
      membership: this.membership,
      system,
    });
    const { fleet } = this;
    this.#attempts = { fleet, proposals: this.#proposals, system, polling: this.#polling };
  }

  /** Resolves when a majority can be heard. */
  listen(): Promise<void> {
    return this.#listener.start();
  }

  async attempt(request: Request, io: Io): Promise<AttemptAnswer<Cookie>> {
    const key = this.#key(request);
    refuseLong(key, Math.max(request.ttlMs, request.keepMs), this.#settings.maxTtlMs);
    const standing = this.#standings.of(request, () => this.#proposals.next());
    if (standing === null) return { ended: true };
    this.membership.refresh();
    this.#listener.looked(request.id);
    const answer = await attempt(this.#attempts, request, standing, io);
    if ("ended" in answer || ("busy" in answer && !request.queue)) this.#standings.end(request);
    return answer;
  }

  renew(items: readonly RenewItem<Cookie>[], io: Io): Promise<readonly RenewAnswer[]> {
    for (const { request, ttlMs } of items) refuseLong(this.#key(request), ttlMs, this.#settings.maxTtlMs);
    return renewed(this.fleet, items, io, (node, keys, args) => this.#renewal(node, keys, args, io));
  }

  async release(
    request: Request,
    _cookie: Cookie,
    options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    const used = options.lastFences[0];
    return (await this.#end(request, used === undefined ? "" : String(used), "release", io))
      ? "released"
      : "not-held";
  }

  /** What goes to a node in one turn of the event loop goes there as one command; see desk.ts. */
  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    return abandonEach(requests, io, (request) => this.#end(request, "", "abandonment", io));
  }

  forget(request: Request): void {
    this.#standings.end(request);
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    return this.#listener.wake(request.id, wake);
  }

  onLoss(tell: (id: string, reason: LossReason, detail?: string) => void): () => void {
    return this.#listener.onLoss(tell);
  }

  onNotice(tell: (notice: StoreNotice) => void): () => void {
    this.membership.tell = tell;
    return () => {
      this.membership.tell = () => {};
    };
  }

  owns(request: Request, _cookie: Cookie, io: Io): Promise<boolean> {
    const key = this.#key(request);
    return owned(this.fleet, key, io, (node) => this.#vote(node, "owns", [key], [request.id], io));
  }

  async note(request: Request, _cookie: Cookie, note: Note, io: Io): Promise<void> {
    const key = this.#key(request);
    const args = [request.id, note?.waitingFor ?? ""];
    await this.#tally("note", key, args, { doing: "note", words: ["1", "0"] }, io);
  }

  async inspect(key: string, io: Io): Promise<LockInfo | null> {
    const votes = await this.#look([key], io);
    if (count(votes, () => true) < this.fleet.majority)
      throw quorumError(
        "inspection",
        key,
        this.fleet.reasons(votes, () => "answered"),
        this.fleet.majority,
      );
    return lockInfo(this.fleet, key, votes, 0);
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    if (this.#closed) throw closedError();
    yield* listed(this.fleet, this.#names, options, io, async (keys) => {
      const votes = await this.#look(keys, io);
      return keys.flatMap((key, at) => lockInfo(this.fleet, key, votes, at) ?? []);
    });
  }

  async revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    const { reason, fence, force } = options;
    const args = [reason, fence === undefined ? "" : String(fence), force ? "1" : "0"];
    const words: readonly RevokeAnswer[] = ["revoked", "other-fence", "free"];
    return this.#tally("revoke", key, args, { doing: "revocation", words, oneIsEnough: true }, io);
  }

  async check(io: Io): Promise<readonly Finding[]> {
    if (this.#closed) throw closedError();
    return findings(this.fleet, this.membership, this.#listener.deaf, io, () =>
      this.#attempts.system.monoMs(),
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#polling.close();
    await this.#listener.close();
    await this.fleet.close();
  }

  /** Ends the id on all nodes that may have heard of it, whatever they answered. */
  async #end(request: Request, used: string, doing: string, io: Io): Promise<boolean> {
    const key = this.#key(request);
    const ask = this.#polling.ending(request, used, io);
    return (await tally(this.fleet, { doing, key, words: ["1", "0"], ask }, io)) === "1";
  }

  async #tally<W extends string>(
    name: "note" | "revoke",
    key: string,
    args: readonly string[],
    question: Pick<Question<W>, "doing" | "words" | "oneIsEnough">,
    io: Io,
  ): Promise<W> {
    if (this.#closed) throw closedError(key);
    const record = [this.#names.record(key)];
    const words = [...this.#head, ...args];
    const ask = async (node: Node): Promise<string> => textOf(await node.script(name, record, words, io));
    return tally(this.fleet, { ...question, key, ask }, io);
  }

  async #look(keys: readonly string[], io: Io): Promise<readonly Vote<Look>[]> {
    if (this.#closed) throw closedError(keys[0]);
    const { votes } = await this.fleet.ask<Look, never>(
      {
        ask: async (node) => {
          const sentMs = this.#attempts.system.monoMs();
          const look = readLook(await this.#vote(node, "look", keys, [], io));
          node.readClock(look.clock, sentMs);
          return look;
        },
        decide: () => null,
      },
      io,
    );
    return votes;
  }

  /** A node that says that it may not vote is helped, and asked once more if it then may. */
  async #vote(
    node: Node,
    name: ScriptName,
    keys: readonly string[],
    args: readonly string[],
    io: Patience,
  ): Promise<Reply> {
    const names = [this.#markerKey, ...keys.map((key) => this.#names.record(key))];
    const words = [...this.#head, ...args];
    const reply = await node.script(name, names, words, io);
    const out = readOut(reply);
    if (out === null || !(await this.membership.mend(node, out))) return reply;
    return node.script(name, names, words, io);
  }

  /** Renews on one node. The last word of the answer is the node's clock, and none counts after a jump. */
  async #renewal(
    node: Node,
    keys: readonly string[],
    args: readonly string[],
    io: Patience,
  ): Promise<Reply | Out> {
    const { system } = this.#attempts;
    for (let tries = 1; ; tries += 1) {
      const sentMs = system.monoMs();
      const reply = await this.#vote(node, "renew", keys, args, io);
      if (readOut(reply) !== null) return reply;
      node.readClock(textOf(listOf(reply).at(-1)), sentMs);
      if (node.jump === null) return reply;
      if (tries > 1 || !(await this.membership.mend(node, JUMPED))) return JUMPED;
    }
  }

  #key(request: Request): string {
    const key = request.keys[0] as string;
    if (this.#closed) throw closedError(key);
    return key;
  }
}
