// Redis Cluster behind the port. Every command goes to the primary of its key's slot, over one connection to
// each primary.
//
// 1. The nodes are asked who owns which slot (CLUSTER SLOTS), and again after MOVED, when a node cannot be
//    reached, and when a call is overdue.
// 2. MOVED and ASK are followed within the call. A call that was not executed is retried within its timeout.
// 3. A command whose connection ended without an answer is not sent again: its outcome is unknown.
//
// A subscription is held at one node: a Cluster carries what is published to all of its nodes.

import { UnsupportedError } from "../../../core/errors.ts";
import { NEVER_ABORTED } from "../../shared/never-aborted.ts";
import { type CallContext, listOf, type RedisNode, type Reply, textOf } from "../client/port.ts";
import { type Address, addressOf, type Connection, type Dial, nameOf } from "./connection.ts";
import { NodeConnection, NotSentError, type TopologyEnv } from "./node-connection.ts";
import { SharedRun } from "./shared-run.ts";
import { SLOTS, slotOf } from "./slots.ts";
import { connectVetted, Topology } from "./topology.ts";

/** So many nodes may pass a command on to another before it fails. */
const MOST_HOPS = 5;
const QUIET = (): void => {};
const UNLIMITED: CallContext = { signal: NEVER_ABORTED };

interface SlotMap {
  /** By slot, the name of its primary. */
  readonly owners: (string | undefined)[];
  readonly primaries: ReadonlySet<string>;
  readonly replicas: ReadonlySet<string>;
}

export interface ClusterOptions {
  /** Any nodes of the Cluster, or one name that leads to some of them. */
  readonly seeds: readonly Address[];
  readonly dial: Dial;
  readonly keyPrefix?: string;
}

export class Cluster extends Topology {
  readonly #dial: Dial;
  readonly #seeds: readonly string[];
  readonly #env: TopologyEnv;
  readonly #connections = new Map<string, NodeConnection>();
  /** By channel, the node that its subscription is held at. */
  readonly #subscribedTo = new Map<string, string>();
  readonly #refreshing: SharedRun<void>;
  #map: SlotMap = { owners: [], primaries: new Set(), replicas: new Set() };
  #lastPrimary = 0;

  constructor({ seeds, dial, keyPrefix = "" }: ClusterOptions, env: TopologyEnv) {
    super(keyPrefix, env.system);
    this.#dial = dial;
    this.#seeds = seeds.map(nameOf);
    this.#env = env;
    this.#refreshing = new SharedRun(env.system);
  }

  async open(): Promise<this> {
    try {
      await this.#refresh(UNLIMITED);
      return this;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  slotOf(key: string): number {
    return slotOf(this.keyPrefix + key);
  }

  nodeOf(key: string): string {
    return this.#map.owners[this.slotOf(key)] ?? "";
  }

  send(command: readonly string[], call: CallContext, key?: string): Promise<Reply> {
    this.resubscribe();
    const slot = key === undefined ? null : this.slotOf(key);
    return this.retry(
      call,
      () => this.#sendOnce(command, call, slot),
      () => this.#refresh(call).catch(QUIET),
    );
  }

  async nodes(call: CallContext): Promise<readonly RedisNode[]> {
    // Just after connecting the map is fresh, and there is no connection yet to ask again on.
    if (this.#connections.size > 0) await this.#refresh(call);
    const { primaries, replicas } = this.#map;
    return [
      ...[...primaries].map((name): RedisNode => ({
        name,
        isPrimary: true,
        send: (command, how) => this.#connectionTo(name).send(command, how),
      })),
      ...[...replicas].map((name) => this.replica(name, this.#dial)),
    ];
  }

  reportError(error: unknown, node: string): void {
    if (redirection(error, node) !== null) this.#refreshSoon();
  }

  override close(): Promise<void> {
    for (const connection of this.#connections.values()) connection.close();
    return super.close();
  }

  /** Spreads subscriptions over the nodes by the name of the channel, and tries the others after it. */
  protected async connectSubscriber(channel: string, cancel?: AbortSignal): Promise<Connection> {
    const names = [...this.#map.primaries, ...this.#map.replicas];
    const first = slotOf(channel) % names.length;
    let failure: unknown = new Error("no node of the Cluster is known");
    for (let i = 0; i < names.length; i += 1) {
      const name = names[(first + i) % names.length] as string;
      try {
        const connection = await this.#dial(addressOf(name), cancel);
        this.#subscribedTo.set(channel, name);
        return connection;
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  protected async connectDedicated(node: string, cancel?: AbortSignal): Promise<Connection> {
    try {
      return await connectVetted(this.#dial, node, this.#env, cancel);
    } catch (error) {
      // The node is gone, or is a replica by now: its slots have another owner.
      this.#refreshSoon();
      throw error;
    }
  }

  async #sendOnce(command: readonly string[], call: CallContext, slot: number | null): Promise<Reply> {
    let name = slot === null ? this.#anyPrimary() : this.#map.owners[slot];
    let isAsking = false;
    for (let hops = 0; hops < MOST_HOPS && name !== undefined; hops += 1) {
      const connection = this.#connectionTo(name);
      if (connection.isLate) this.#refreshSoon(call);
      try {
        return await connection.send(command, call, isAsking);
      } catch (error) {
        const to = redirection(error, name);
        if (to === null) throw error;
        ({ name, isAsking } = to);
        if (isAsking || slot === null) continue;
        this.#map.owners[slot] = name;
        this.#refreshSoon(call);
      }
    }
    throw new NotSentError(
      new Error(name === undefined ? `CLUSTERDOWN no node serves slot ${slot}` : "MOVED too often"),
    );
  }

  #anyPrimary(): string | undefined {
    const names = [...this.#map.primaries];
    this.#lastPrimary += 1;
    return names[this.#lastPrimary % names.length];
  }

  #connectionTo(primary: string): NodeConnection {
    let connection = this.#connections.get(primary);
    if (connection === undefined) {
      connection = new NodeConnection(
        primary,
        (cancel) => connectVetted(this.#dial, primary, this.#env, cancel),
        this.system,
        // After a half-open connection, those of the subscriptions are suspect too.
        { onDrop: () => this.moveSubscriptions((channel) => this.#subscribedTo.get(channel) === primary) },
      );
      this.#connections.set(primary, connection);
    }
    return connection;
  }

  #refreshSoon(call: CallContext = UNLIMITED): void {
    this.#refresh(call).catch(QUIET);
  }

  /** Asks who owns which slot. One question at a time. */
  #refresh(call: CallContext): Promise<void> {
    return this.#refreshing.join(call, async (cancel) => {
      const open = [...this.#connections.values()].filter((one) => one.current !== null && !one.isLate);
      const asked = open.map(async (one) => slotMapOf(await one.send(["CLUSTER", "SLOTS"], call), one.name));
      this.#use(await Promise.any(asked).catch(() => this.#askOthers(cancel)));
    });
  }

  /** Asks every node that was ever named, on connections that are closed again. */
  async #askOthers(cancel: AbortSignal): Promise<SlotMap> {
    const done = new AbortController();
    const ask = async (name: string): Promise<SlotMap> => {
      const connection = await this.#dial(addressOf(name), AbortSignal.any([cancel, done.signal]));
      return slotMapOf(await connection.send(["CLUSTER", "SLOTS"]), name);
    };
    const { primaries, replicas } = this.#map;
    try {
      return await Promise.any([...new Set([...primaries, ...replicas, ...this.#seeds])].map(ask));
    } catch (error) {
      throw explainNoAnswer(error);
    } finally {
      done.abort();
    }
  }

  #use(map: SlotMap): void {
    this.#map = map;
    for (const [name, connection] of this.#connections) {
      if (map.primaries.has(name) || !(connection.isIdle || connection.isLate)) continue;
      connection.close();
      this.#connections.delete(name);
    }
    this.moveSubscriptions((channel) => {
      const node = this.#subscribedTo.get(channel);
      return node !== undefined && !map.primaries.has(node) && !map.replicas.has(node);
    });
  }
}

/**
 * A node of a Cluster that has no host to announce leaves it empty, or announces "?": then it is the host
 * that was asked.
 */
function announcedHost(host: string | undefined, asked: string): string {
  return host === undefined || host === "" || host === "?" ? addressOf(asked).host : host;
}

/** The node that MOVED or ASK names, or null. */
function redirection(
  error: unknown,
  from: string,
): { readonly name: string; readonly isAsking: boolean } | null {
  const parts = error instanceof Error ? /^(MOVED|ASK) \d+ (\S*):(\d+)/.exec(error.message) : null;
  if (parts === null) return null;
  const [, kind, host, port] = parts;
  return { name: nameOf({ host: announcedHost(host, from), port: Number(port) }), isAsking: kind === "ASK" };
}

/** `asked`: the node that answered. */
function slotMapOf(reply: Reply, asked: string): SlotMap {
  const owners: (string | undefined)[] = Array.from({ length: SLOTS });
  const [primaries, replicas] = [new Set<string>(), new Set<string>()];
  for (const range of listOf(reply)) {
    const [first, last, ...nodes] = listOf(range);
    const [primary, ...others] = nodes.map((node) => {
      const [host, port] = listOf(node).map(textOf);
      return nameOf({ host: announcedHost(host, asked), port: Number(port) });
    });
    if (primary === undefined) continue;
    primaries.add(primary);
    for (const other of others) replicas.add(other);
    owners.fill(primary, Number(textOf(first)), Number(textOf(last)) + 1);
  }
  if (primaries.size === 0) throw new Error("CLUSTERDOWN no slot is served");
  return { owners, primaries, replicas };
}

function explainNoAnswer(error: unknown): unknown {
  const errors: unknown[] = error instanceof AggregateError ? error.errors : [error];
  const single = errors.find((one) => one instanceof Error && /cluster support disabled/i.test(one.message));
  if (single === undefined) return errors[0] ?? new Error("no node of the Cluster is known");
  return new UnsupportedError("this Redis is not a Cluster: use redis://host:port, or a client of one node", {
    cause: single,
  });
}
