// A Redis whose primary is named by sentinels, behind the port.
//
// 1. Every sentinel is asked for the primary at once; the first whose answer proves to be one, by its own word, wins.
// 2. When the connection ends, the node says that it is a replica, or a sentinel announces another one, they are asked again;
//    where nothing was executed a call looks again while its caller is patient.
// 3. A command whose connection ended without an answer is not sent again: nobody knows what became of it.

import { StoreUnavailableError } from "../../core/errors.ts";
import { retryWhileUnsent } from "../shared/retry-while-unsent.ts";
import { Ear } from "./ear.ts";
import { hopeless, Lane, notExecuted, NotSentError, type Surroundings, telling } from "./lane.ts";
import {
  type Address,
  addressOf,
  type Dial,
  type Link,
  nameOf,
  sessionBy,
  type Switchboard,
} from "./link.ts";
import {
  listOf,
  type Patience,
  type RedisNode,
  type RedisPort,
  type Reply,
  type Session,
  textOf,
} from "./port.ts";
import { SharedRun, within } from "./shared-run.ts";
import { lost, quorumBy } from "./together.ts";

const QUIET = (): void => {};
const SWITCHED = "+switch-master";

export interface SentinelSwitchboard extends Switchboard {
  readonly sentinel: Dial;
}

export class SentinelPort implements RedisPort {
  readonly keyPrefix: string;
  readonly #board: SentinelSwitchboard;
  readonly #sentinels: readonly Address[];
  readonly #master: string;
  readonly #around: Surroundings;
  readonly #watch: Ear;
  readonly #ears = new Set<Ear>();
  readonly #sessions = new Set<Link>();
  readonly #replicaLanes = new Map<string, Lane>();
  #lane: Lane | null = null;
  readonly #finding: SharedRun<Lane>;
  #asking: Promise<unknown> | null = null;
  #answered: Address | null = null;
  #closed = false;

  private constructor(
    board: SentinelSwitchboard,
    sentinels: readonly Address[],
    master: string,
    around: Surroundings,
  ) {
    this.#board = board;
    this.#sentinels = sentinels;
    this.#master = master;
    this.#around = around;
    this.#finding = new SharedRun(around.system);
    this.keyPrefix = board.keyPrefix;
    this.#watch = new Ear(
      () => this.#dialSentinel(),
      SWITCHED,
      (message) => this.#switched(message),
    );
  }

  /** `master`: the name under which the sentinels know it. */
  static async connect(
    board: SentinelSwitchboard,
    sentinels: readonly Address[],
    master: string,
    around: Surroundings,
  ): Promise<SentinelPort> {
    const port = new SentinelPort(board, sentinels, master, around);
    try {
      await port.#find({ signal: new AbortController().signal });
    } catch (error) {
      await port.close();
      throw error instanceof NotSentError ? error.cause : error;
    }
    return port;
  }

  async send(words: readonly string[], patience: Patience): Promise<Reply> {
    this.#watch.mend();
    for (const ear of this.#ears) ear.mend();
    return retryWhileUnsent(
      patience,
      () => this.#around.system.monoMs(),
      () => this.#sendOnce(words, patience),
      { isUnsent: notExecuted },
    );
  }

  async nodes(patience: Patience): Promise<readonly RedisNode[]> {
    const { name } = this.#lane ?? (await this.#find(patience));
    const primary: RedisNode = { name, primary: true, send: (words, how) => this.send(words, how) };
    const told = this.#askSentinels((link) => this.#replicasBy(link));
    return [primary, ...(await within(patience, told))];
  }

  quorum(patience: Patience): Promise<string> {
    const said = this.#askSentinels((link) => quorumBy(link, this.#master));
    return within(patience, said);
  }

  async subscribe(channel: string, hear: (message: string) => void): Promise<() => Promise<void>> {
    const ear = new Ear(() => this.#dialMaster(), channel, hear);
    await ear.listen();
    this.#ears.add(ear);
    return () => {
      this.#ears.delete(ear);
      ear.close();
      return Promise.resolve();
    };
  }

  async session(): Promise<Session> {
    const link = await this.#dialMaster();
    this.#sessions.add(link);
    link.onEnd(() => this.#sessions.delete(link));
    // It may be a replica by now: then the commands that go the usual way find out too, and where the primary is.
    return sessionBy(link);
  }

  close(): Promise<void> {
    this.#closed = true;
    for (const link of this.#sessions) link.end();
    this.#watch.close();
    for (const ear of this.#ears) ear.close();
    this.#ears.clear();
    this.#lane?.end();
    for (const lane of this.#replicaLanes.values()) lane.end();
    return Promise.resolve();
  }

  async #sendOnce(words: readonly string[], patience: Patience): Promise<Reply> {
    const lane = this.#lane ?? (await this.#find(patience));
    if (lane.late) this.#doubt();
    try {
      return await lane.send(words, patience);
    } catch (error) {
      // It is gone, or a replica by now.
      if (error instanceof NotSentError || (error instanceof Error && error.message.startsWith("READONLY")))
        this.#leave(lane);
      throw error;
    }
  }

  #leave(lane: Lane): void {
    if (this.#lane !== lane) return;
    this.#lane = null;
    lane.end();
    for (const ear of this.#ears) ear.move();
  }

  /** The connection of the commands was half open: those of the subscriptions may be too. */
  #renewSubscriptions(): void {
    this.#watch.move();
    for (const ear of this.#ears) ear.move();
  }

  /** The primary does not answer. If the sentinels have chosen another one, it is left. */
  #doubt(): void {
    const lane = this.#lane;
    if (this.#asking !== null || lane === null) return;
    this.#asking = this.#askSentinels((link) => this.#masterBy(link))
      .then((name) => name !== lane.name && this.#leave(lane))
      .catch(QUIET)
      .finally(() => {
        this.#asking = null;
      });
  }

  #switched(message: string): void {
    const [master, , , host, port] = message.split(" ");
    const lane = this.#lane;
    if (master !== this.#master || lane === null || host === undefined) return;
    if (lane.name !== nameOf({ host, port: Number(port) })) this.#leave(lane);
  }

  /** One search at a time. */
  async #find(patience: Patience): Promise<Lane> {
    try {
      return await this.#finding.join(patience, (cancel) => this.#findOnce(cancel));
    } catch (error) {
      throw hopeless(error) ? error : new NotSentError(error);
    }
  }

  async #findOnce(cancel: AbortSignal): Promise<Lane> {
    // Most sentinels name the same node, which is then asked once.
    const proofs = new Map<string, Promise<Lane>>();
    const lane = await this.#askSentinels(async (link) => {
      const name = await this.#masterBy(link);
      let proof = proofs.get(name);
      if (proof === undefined) {
        proof = this.#prove(name, cancel);
        proofs.set(name, proof);
      }
      return proof;
    }, cancel);
    for (const proof of proofs.values()) proof.then((other) => other === lane || other.end()).catch(QUIET);
    if (this.#lane === null && !this.#closed) this.#lane = lane;
    else lane.end();
    if (this.#lane === null) throw new Error("the search for the primary was given up");
    this.#watch.mend();
    return this.#lane;
  }

  /** A lane that is open, to a node that says itself that it is the primary. */
  async #prove(name: string, cancel: AbortSignal): Promise<Lane> {
    const dial = async (stop: AbortSignal): Promise<Link> => {
      const link = await this.#board.node(addressOf(name), stop);
      await this.#around.vet(link).catch((error: unknown) => {
        link.end();
        throw error;
      });
      return link;
    };
    const lane = new Lane(name, dial, this.#around.system, () => this.#renewSubscriptions());
    try {
      await lane.connect({ signal: cancel });
      return lane;
    } catch (error) {
      lane.end();
      throw error;
    }
  }

  async #masterBy(sentinel: Link): Promise<string> {
    const reply = listOf(await sentinel.send(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", this.#master]));
    const [host, port] = reply.map(textOf);
    if (host === undefined || port === undefined) {
      throw new StoreUnavailableError(`the sentinels know no master named ${JSON.stringify(this.#master)}`, {
        retryable: false,
      });
    }
    return nameOf({ host, port: Number(port) });
  }

  async #replicasBy(sentinel: Link): Promise<RedisNode[]> {
    const replies = listOf(await sentinel.send(["SENTINEL", "REPLICAS", this.#master]));
    return replies.map((reply) => {
      const words = listOf(reply).map(textOf);
      const word = (name: string): string => words[words.indexOf(name) + 1] ?? "";
      const name = nameOf({ host: word("ip"), port: Number(word("port")) });
      if (!/down|disconnected/.test(word("flags"))) return this.#replica(name);
      return lost(name, word("flags"));
    });
  }

  /** The first good answer of any sentinel, each on a connection that is closed again. */
  async #askSentinels<T>(ask: (link: Link) => Promise<T>, cancel?: AbortSignal): Promise<T> {
    const over = new AbortController();
    const ends = cancel === undefined ? over.signal : AbortSignal.any([cancel, over.signal]);
    const one = async (sentinel: Address): Promise<T> => {
      const answer = await ask(await this.#board.sentinel(sentinel, ends));
      if (!over.signal.aborted) this.#answered = sentinel;
      return answer;
    };
    try {
      return await Promise.any(this.#sentinels.map(one));
    } catch (error) {
      throw telling(error);
    } finally {
      over.abort();
    }
  }

  /** The one that answered last, or another. */
  async #dialSentinel(): Promise<Link> {
    let failure: unknown;
    for (const sentinel of new Set([this.#answered, ...this.#sentinels])) {
      try {
        if (sentinel !== null) return await this.#board.sentinel(sentinel);
      } catch (error) {
        failure ??= error;
      }
    }
    throw failure;
  }

  async #dialMaster(): Promise<Link> {
    const lane = this.#lane ?? (await this.#find({ signal: new AbortController().signal }));
    return this.#board.node(addressOf(lane.name));
  }

  #replica(name: string): RedisNode {
    let lane = this.#replicaLanes.get(name);
    if (lane === undefined) {
      lane = new Lane(name, (cancel) => this.#board.node(addressOf(name), cancel), this.#around.system);
      this.#replicaLanes.set(name, lane);
    }
    const way = lane;
    return { name, primary: false, send: (words, patience) => way.send(words, patience) };
  }
}
