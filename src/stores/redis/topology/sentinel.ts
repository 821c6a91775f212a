// A Redis whose primary is named by sentinels, behind the port. It is a single node whose address changes:
//
// 1. To connect, all sentinels are asked for the primary at once. The first node that they name and that says
//    itself that it is the primary is taken.
// 2. When the connection ends, when the node says that it is a replica (READONLY), or when a sentinel
//    announces another primary, the next call connects again.
// 3. While calls are overdue, the sentinels are asked in the background whether there is another primary.

import { StoreUnavailableError } from "../../../core/errors.ts";
import { type CallContext, listOf, type RedisNode, type Reply, textOf } from "../client/port.ts";
import { type Address, type Connection, type Dial, nameOf } from "./connection.ts";
import { mostSpecificError, type TopologyEnv } from "./node-connection.ts";
import { abortable } from "./shared-run.ts";
import { SingleNode } from "./single-node.ts";
import { Subscription } from "./subscription.ts";
import { connectVetted } from "./topology.ts";

const QUIET = (): void => {};
const SWITCHED = "+switch-master";

export interface SentinelOptions {
  readonly sentinels: readonly Address[];
  /** The name under which the sentinels know the primary. */
  readonly master: string;
  readonly dialSentinel: Dial;
  readonly dialNode: Dial;
}

export class Sentinel extends SingleNode {
  readonly #group: SentinelGroup;
  readonly #announcements: Subscription;
  #isAsking = false;

  constructor(options: SentinelOptions, env: TopologyEnv) {
    const group = new SentinelGroup(options, env);
    super((cancel) => group.connectToPrimary(cancel), "", env.system);
    this.#group = group;
    this.#announcements = new Subscription(
      (cancel) => group.connectToSentinel(cancel),
      SWITCHED,
      (message) => this.#switched(message),
      env.system,
    );
  }

  override send(command: readonly string[], call: CallContext): Promise<Reply> {
    this.#announcements.resubscribe();
    if (this.connection.isLate) this.#checkPrimary();
    return super.send(command, call);
  }

  async nodes(call: CallContext): Promise<readonly RedisNode[]> {
    const name = this.#group.nameOf(await this.connection.connect(call));
    const primary: RedisNode = { name, isPrimary: true, send: (command, how) => this.send(command, how) };
    const replicas = await abortable(call, this.#group.replicas());
    return [
      primary,
      ...replicas.map((replica) =>
        replica.isDown
          ? missingNode(replica.name, replica.flags)
          : this.replica(replica.name, this.#group.dialNode),
      ),
    ];
  }

  quorum(call: CallContext): Promise<string> {
    return abortable(call, this.#group.quorum());
  }

  override close(): Promise<void> {
    this.#announcements.close();
    return super.close();
  }

  override moveSubscriptions(): void {
    this.#announcements.move();
    super.moveSubscriptions();
  }

  #switched(message: string): void {
    const [master, , , host, port] = message.split(" ");
    if (master === this.#group.master && host !== undefined)
      this.#leaveUnless(nameOf({ host, port: Number(port) }));
  }

  #checkPrimary(): void {
    if (this.#isAsking) return;
    this.#isAsking = true;
    this.#group
      .findPrimary()
      .then((name) => this.#leaveUnless(name))
      .catch(QUIET)
      .finally(() => {
        this.#isAsking = false;
      });
  }

  #leaveUnless(primary: string): void {
    const { current } = this.connection;
    if (current !== null && this.#group.nameOf(current) !== primary) this.connection.drop();
  }
}

interface Replica {
  readonly name: string;
  readonly flags: string;
  readonly isDown: boolean;
}

/** The sentinels of one primary. Each question goes to all of them, on connections that are closed again. */
class SentinelGroup {
  readonly master: string;
  readonly dialNode: Dial;
  readonly #dialSentinel: Dial;
  readonly #sentinels: readonly Address[];
  readonly #env: TopologyEnv;
  readonly #names = new WeakMap<Connection, string>();
  /** The sentinel that answered last. */
  #answered: Address | null = null;

  constructor({ sentinels, master, dialSentinel, dialNode }: SentinelOptions, env: TopologyEnv) {
    this.master = master;
    this.dialNode = dialNode;
    this.#dialSentinel = dialSentinel;
    this.#sentinels = sentinels;
    this.#env = env;
  }

  /** The node at the other end of a connection to the primary. */
  nameOf(connection: Connection): string {
    return this.#names.get(connection) ?? "";
  }

  async connectToPrimary(cancel?: AbortSignal): Promise<Connection> {
    // Most sentinels name the same node, which is then asked once.
    const connecting = new Map<string, Promise<Connection>>();
    const chosen = await this.#ask(async (sentinel) => {
      const name = await this.#primaryBy(sentinel);
      const connection = connecting.get(name) ?? this.#connectVetted(name, cancel);
      connecting.set(name, connection);
      return connection;
    }, cancel);
    for (const other of connecting.values()) other.then((one) => one === chosen || one.close()).catch(QUIET);
    return chosen;
  }

  /** The sentinel that answered last, or another one. */
  async connectToSentinel(cancel?: AbortSignal): Promise<Connection> {
    let failure: unknown;
    for (const sentinel of new Set([this.#answered ?? (this.#sentinels[0] as Address), ...this.#sentinels])) {
      try {
        return await this.#dialSentinel(sentinel, cancel);
      } catch (error) {
        failure ??= error;
      }
    }
    throw failure;
  }

  findPrimary(): Promise<string> {
    return this.#ask((sentinel) => this.#primaryBy(sentinel));
  }

  replicas(): Promise<Replica[]> {
    return this.#ask(async (sentinel) => {
      const replies = listOf(await sentinel.send(["SENTINEL", "REPLICAS", this.master]));
      return replies.map((reply) => {
        const words = listOf(reply).map(textOf);
        const field = (name: string): string => words[words.indexOf(name) + 1] ?? "";
        const flags = field("flags");
        const name = nameOf({ host: field("ip"), port: Number(field("port")) });
        return { name, flags, isDown: /down|disconnected/.test(flags) };
      });
    });
  }

  /** Whether a failover could happen. */
  quorum(): Promise<string> {
    return this.#ask((sentinel) =>
      sentinel.send(["SENTINEL", "CKQUORUM", this.master]).then(textOf, (error: unknown) => {
        if (error instanceof Error && error.message.startsWith("NOQUORUM")) return error.message;
        throw error;
      }),
    );
  }

  async #primaryBy(sentinel: Connection): Promise<string> {
    const reply = listOf(await sentinel.send(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", this.master]));
    const [host, port] = reply.map(textOf);
    if (host === undefined || port === undefined) {
      throw new StoreUnavailableError(`the sentinels know no master named ${JSON.stringify(this.master)}`, {
        retryable: false,
      });
    }
    return nameOf({ host, port: Number(port) });
  }

  async #connectVetted(name: string, cancel?: AbortSignal): Promise<Connection> {
    const connection = await connectVetted(this.dialNode, name, this.#env, cancel);
    this.#names.set(connection, name);
    return connection;
  }

  /** The first good answer of any sentinel. */
  async #ask<T>(question: (sentinel: Connection) => Promise<T>, cancel?: AbortSignal): Promise<T> {
    const done = new AbortController();
    const ends = cancel === undefined ? done.signal : AbortSignal.any([cancel, done.signal]);
    const askOne = async (sentinel: Address): Promise<T> => {
      const answer = await question(await this.#dialSentinel(sentinel, ends));
      if (!done.signal.aborted) this.#answered = sentinel;
      return answer;
    };
    try {
      return await Promise.any(this.#sentinels.map(askOne));
    } catch (error) {
      throw mostSpecificError(error);
    } finally {
      done.abort();
    }
  }
}

/** A replica that the sentinels miss. Connecting to it could take all the time of a health check. */
function missingNode(name: string, flags: string): RedisNode {
  return { name, isPrimary: false, send: () => Promise.reject(new Error(`the sentinels say ${flags}`)) };
}
