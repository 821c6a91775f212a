// The contract over N independent masters, one method per call. Every call asks all nodes at once, and
// answers as soon as a majority has decided. If it does not know an outcome, it throws, with one reason per
// node.

import type {
  AttemptAnswer,
  DirectCalls,
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
import type { System } from "../../core/system.ts";
import { abandonEach } from "../shared/abandon-each.ts";
import { RedisKeys } from "../redis/commands/keys.ts";
import { listOf, type CallContext, type Reply, textOf } from "../redis/client/port.ts";
import { Acquirer, type Cookie } from "./acquire.ts";
import { closedError, rejectLong } from "./errors.ts";
import { FenceGenerator } from "./fence-generator.ts";
import { CLAIM_MS, redlockGuarantees } from "./guarantees.ts";
import { findProblems, rejectEvicting, rejectSame } from "./health.ts";
import { listLocks, lockInfo } from "./inspect.ts";
import { majorityAnswer } from "./majority-answer.ts";
import { Membership } from "./membership.ts";
import type { Node } from "./node.ts";
import { NodeBatcher } from "./node-batcher.ts";
import { NodeSet } from "./node-set.ts";
import { Notifications } from "./notifications.ts";
import type { RedlockSettings } from "./options.ts";
import { queryOwnership } from "./owns.ts";
import { count, type Vote } from "./quorum-call.ts";
import { renewAll } from "./renew.ts";
import { RequestStates } from "./request-state.ts";
import { type Inspection, JUMPED, type NotVoting, readInspection, readNotVoting } from "./script-replies.ts";
import type { ScriptName } from "./scripts.generated.ts";

/** A slower node is registered with its first vote. */
const LONGEST_REGISTRATION_MS = 300;
/** Enough to distinguish a handful of processes. Records have a column of this width for it. */
const PROC_LENGTH = 16;
const REVOKE_ANSWERS: readonly RevokeAnswer[] = ["revoked", "other-fence", "free"];

export class RedlockOpenStore implements OpenStore<Cookie> {
  readonly guarantees: Guarantees = redlockGuarantees;
  readonly #nodeSet: NodeSet;
  readonly #membership: Membership;
  readonly #names: RedisKeys;
  readonly #markerKey: string;
  readonly #notifications: Notifications;
  readonly #states = new RequestStates();
  readonly #settings: RedlockSettings;
  readonly #acquirer: Acquirer;
  readonly #system: System;
  /** What every script begins with. */
  readonly #head: readonly string[];
  #closed = false;

  private constructor(nodes: readonly Node[], env: StoreEnv, settings: RedlockSettings) {
    const { system, namespace } = env;
    this.#settings = settings;
    this.#system = system;
    this.#names = new RedisKeys(namespace);
    const proc = system.randomId().slice(0, PROC_LENGTH);
    this.#head = [this.#names.channels, proc, String(CLAIM_MS)];
    this.#markerKey = `${namespace}:node`;
    this.#nodeSet = new NodeSet(nodes, system, settings.nodeTimeoutMs);
    this.#membership = new Membership(this.#nodeSet, {
      markerKey: this.#markerKey,
      pattern: this.#names.pattern(""),
      head: this.#head,
      maxTtlMs: settings.maxTtlMs,
      fresh: env.allow.includes("fresh-nodes"),
      evicting: env.allow.includes("eviction"),
      system,
    });
    this.#notifications = new Notifications(nodes, this.#names.channels + proc);
    this.#acquirer = new Acquirer({
      nodeSet: this.#nodeSet,
      batcher: new NodeBatcher(nodes, this.#markerKey, this.#head, system),
      membership: this.#membership,
      states: this.#states,
      fences: new FenceGenerator(system),
      names: this.#names,
      system,
    });
  }

  /** Opens at least a majority of the nodes, all of them different, each registered so that it may vote. */
  static async open(
    nodes: readonly Node[],
    env: StoreEnv,
    settings: RedlockSettings,
  ): Promise<RedlockOpenStore> {
    const store = new RedlockOpenStore(nodes, env, settings);
    try {
      await store.#nodeSet.open();
      await store.#register(nodes, Math.min(LONGEST_REGISTRATION_MS, settings.nodeTimeoutMs));
      return store;
    } catch (error) {
      await store.close();
      throw error;
    }
  }

  async #register(nodes: readonly Node[], timeoutMs: number): Promise<void> {
    // Holders learn of a revocation by notification. Nothing depends on it, so it is not awaited for long.
    const subscribed = Promise.race([
      this.#notifications.start(),
      new Promise<void>((resolve) => void this.#system.after(timeoutMs, resolve, "background")),
    ]);
    const { votes } = await this.#nodeSet.ask<NotVoting | null, never>(
      {
        ask: (node) => this.#membership.registerNode(node),
        decide: () => null,
        nodeTimeoutMs: timeoutMs,
      },
      { timeoutMs },
    );
    rejectSame(nodes);
    rejectEvicting(votes);
    if (count(votes, (answer) => answer?.why === "ready") > 0) await this.#membership.readmitAll();
    await subscribed;
  }

  async attempt(request: Request, { timeoutMs }: Io): Promise<AttemptAnswer<Cookie>> {
    this.#admit(request);
    return promised((settle) => this.#acquirer.attempt(request, timeoutMs, settle));
  }

  readonly direct: DirectCalls<Cookie> = {
    attempt: (request, settle) => {
      try {
        this.#acquirer.attempt(this.#admit(request), directTimeoutMs(request.ttlMs), settle);
      } catch (error) {
        queueMicrotask(() => settle(error, null));
      }
    },
    release: (request, _cookie, lastFence, settle) => {
      const timeoutMs = directTimeoutMs(request.ttlMs);
      this.#acquirer.end(request, String(lastFence), "release", timeoutMs, (error, isReleased) =>
        settle(error, isReleased === null ? null : isReleased ? "released" : "not-held"),
      );
    },
  };

  renew(items: readonly RenewItem<Cookie>[], io: Io): Promise<readonly RenewAnswer[]> {
    for (const { request, ttlMs } of items) rejectLong(this.#keyOf(request), ttlMs, this.#settings.maxTtlMs);
    return renewAll(this.#nodeSet, items, io, (node, keys, args) => this.#renewOn(node, keys, args, io));
  }

  async release(
    request: Request,
    _cookie: Cookie,
    { lastFences: [used] }: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    const isReleased = await this.#end(request, used === undefined ? "" : String(used), "release", io);
    return isReleased ? "released" : "not-held";
  }

  /** What goes to a node in one turn of the event loop goes there as one command. */
  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    return abandonEach(requests, io, (request) => this.#end(request, "", "abandonment", io));
  }

  forget(request: Request): void {
    this.#states.end(request);
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    return this.#notifications.subscribe(request.id, wake);
  }

  onLoss(report: (id: string, reason: LossReason, detail?: string) => void): () => void {
    return this.#notifications.onLoss(report);
  }

  onNotice(report: (notice: StoreNotice) => void): () => void {
    this.#membership.report = report;
    return () => {
      this.#membership.report = () => {};
    };
  }

  owns(request: Request, _cookie: Cookie, io: Io): Promise<boolean> {
    const key = this.#keyOf(request);
    return queryOwnership(this.#nodeSet, key, io, (node) => this.#ask(node, "owns", [key], [request.id], io));
  }

  async note(request: Request, _cookie: Cookie, note: Note, io: Io): Promise<void> {
    await this.#askAll("note", this.#keyOf(request), [request.id, note?.waitingFor ?? ""], ["1", "0"], io);
  }

  async inspect(key: string, io: Io): Promise<LockInfo | null> {
    const votes = await this.#inspect([key], io);
    if (count(votes, ({ views }) => views[0]?.failure === null) < this.#nodeSet.majority)
      throw this.#nodeSet.error("inspection", key, votes, ({ views }) => views[0]?.failure ?? "answered");
    return lockInfo(this.#nodeSet, key, votes, 0);
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    if (this.#closed) throw closedError();
    yield* listLocks(this.#nodeSet, this.#names, options, io, async (keys) => {
      const votes = await this.#inspect(keys, io);
      return keys.flatMap((key, at) => lockInfo(this.#nodeSet, key, votes, at) ?? []);
    });
  }

  revoke(key: string, { reason, fence, force }: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    const args = [reason, fence === undefined ? "" : String(fence), force ? "1" : "0"];
    return this.#askAll("revoke", key, args, REVOKE_ANSWERS, io);
  }

  async check(io: Io): Promise<readonly Finding[]> {
    if (this.#closed) throw closedError();
    const { unsubscribed } = this.#notifications;
    return findProblems(this.#nodeSet, this.#membership, unsubscribed, io, () => this.#system.monoMs());
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#acquirer.isClosed = true;
    await this.#notifications.close();
    await this.#nodeSet.close();
  }

  async #end(request: Request, used: string, goal: string, { timeoutMs }: Io): Promise<boolean> {
    this.#keyOf(request);
    return promised((settle) => this.#acquirer.end(request, used, goal, timeoutMs, settle));
  }

  /** Runs a script that answers with one word on all nodes. */
  async #askAll<W extends string>(
    name: "note" | "revoke",
    key: string,
    args: readonly string[],
    words: readonly W[],
    io: Io,
  ): Promise<W> {
    if (this.#closed) throw closedError(key);
    const { majority } = this.#nodeSet;
    const [record, head] = [[this.#names.record(key)], [...this.#head, ...args]];
    const { decision, votes } = await this.#nodeSet.ask<string, W>(
      {
        ask: async (node) => textOf(await node.script(name, record, head, io)),
        decide: (now) => majorityAnswer(now, words, majority, name === "revoke"),
      },
      io,
    );
    if (decision !== null) return decision;
    const goal = name === "revoke" ? "revocation" : name;
    throw this.#nodeSet.error(goal, key, votes, (word) => `answered ${word}`);
  }

  async #inspect(keys: readonly string[], io: Io): Promise<readonly Vote<Inspection>[]> {
    if (this.#closed) throw closedError(keys[0]);
    const ask = async (node: Node): Promise<Inspection> => {
      const sentMs = this.#system.monoMs();
      const found = readInspection(await this.#ask(node, "inspect", keys, [], io));
      node.readClock(found.clock, sentMs);
      return found;
    };
    return (await this.#nodeSet.ask<Inspection, never>({ ask, decide: () => null }, io)).votes;
  }

  /** A node that may not vote is asked once more if it can be readmitted. */
  async #ask(
    node: Node,
    name: ScriptName,
    keys: readonly string[],
    args: readonly string[],
    io: CallContext,
  ): Promise<Reply> {
    const names = [this.#markerKey, ...keys.map((key) => this.#names.record(key))];
    const words = [...this.#head, ...args];
    const reply = await node.script(name, names, words, io);
    const notVoting = readNotVoting(reply);
    if (notVoting === null || !(await this.#membership.tryReadmit(node, notVoting))) return reply;
    return node.script(name, names, words, io);
  }

  /** The last word of the answer is the node's clock. No answer counts after a jump of it. */
  async #renewOn(
    node: Node,
    keys: readonly string[],
    args: readonly string[],
    io: CallContext,
  ): Promise<Reply | NotVoting> {
    for (let tries = 1; ; tries += 1) {
      const sentMs = this.#system.monoMs();
      const reply = await this.#ask(node, "renew", keys, args, io);
      if (readNotVoting(reply) !== null) return reply;
      node.readClock(textOf(listOf(reply).at(-1)), sentMs);
      if (node.jump === null) return reply;
      if (tries > 1 || !(await this.#membership.tryReadmit(node, JUMPED))) return JUMPED;
    }
  }

  /** Throws for a request that this store does not take. */
  #admit(request: Request): Request {
    const longestMs = Math.max(request.ttlMs, request.keepMs);
    rejectLong(this.#keyOf(request), longestMs, this.#settings.maxTtlMs);
    this.#membership.refresh();
    this.#notifications.attempted(request.id);
    return request;
  }

  #keyOf(request: Request): string {
    const key = request.keys[0] as string;
    if (this.#closed) throw closedError(key);
    return key;
  }
}

/** The deadline that core keeps for a direct call. */
function directTimeoutMs(ttlMs: number): number {
  return Math.min(2_000, Math.max(50, ttlMs / 3));
}

function promised<T>(run: (settle: (error: unknown, value: T | null) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    run((error, value) => {
      if (value === null) reject(error as Error);
      else resolve(value);
    });
  });
}
