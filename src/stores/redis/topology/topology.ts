// What one node, Sentinel and Cluster share: subscriptions, dedicated connections, and connections to
// replicas for the health check.

import { retryWhileUnsent } from "../../shared/retry-while-unsent.ts";
import type { CallContext, RedisNode, RedisPort, Reply } from "../client/port.ts";
import { addressOf, type Connect, type Connection, type Dial } from "./connection.ts";
import {
  type ConnectionSystem,
  isUnsent,
  NodeConnection,
  NotSentError,
  type TopologyEnv,
} from "./node-connection.ts";
import { Subscription } from "./subscription.ts";

export abstract class Topology implements RedisPort {
  readonly keyPrefix: string;
  protected readonly system: ConnectionSystem;
  readonly #subscriptions = new Set<Subscription>();
  readonly #dedicated = new Set<Connection>();
  readonly #replicas = new Map<string, NodeConnection>();
  #isClosed = false;

  constructor(keyPrefix: string, system: ConnectionSystem) {
    this.keyPrefix = keyPrefix;
    this.system = system;
  }

  abstract send(command: readonly string[], call: CallContext, key?: string): Promise<Reply>;
  /** Connects to a node that delivers what is published to `channel`. */
  protected abstract connectSubscriber(channel: string, cancel?: AbortSignal): Promise<Connection>;
  protected abstract connectDedicated(node: string, cancel?: AbortSignal): Promise<Connection>;

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<() => Promise<void>> {
    const connect: Connect = (cancel) => this.connectSubscriber(channel, cancel);
    const subscription = new Subscription(connect, channel, onMessage, this.system);
    this.#subscriptions.add(subscription);
    await withCause(subscription.start()).catch((error: unknown) => {
      this.#subscriptions.delete(subscription);
      throw error;
    });
    return () => {
      this.#subscriptions.delete(subscription);
      subscription.close();
      return Promise.resolve();
    };
  }

  async dedicate(node: string, cancel?: AbortSignal): Promise<Connection> {
    const connection = await this.connectDedicated(node, cancel);
    if (this.#isClosed) connection.close();
    this.#dedicated.add(connection);
    connection.onEnd(() => this.#dedicated.delete(connection));
    return connection;
  }

  close(): Promise<void> {
    this.#isClosed = true;
    for (const connection of this.#dedicated) connection.close();
    for (const subscription of this.#subscriptions) subscription.close();
    this.#subscriptions.clear();
    for (const replica of this.#replicas.values()) replica.close();
    return Promise.resolve();
  }

  /** Repeats `send` within the timeout of the call while it has certainly changed nothing. */
  protected retry(
    call: CallContext,
    send: () => Promise<Reply>,
    beforePause?: () => Promise<void>,
  ): Promise<Reply> {
    const rule = beforePause === undefined ? { isUnsent } : { isUnsent, beforePause };
    return retryWhileUnsent(call, () => this.system.monoMs(), send, rule);
  }

  /** Subscriptions that have no connection try once more. */
  resubscribe(): void {
    for (const subscription of this.#subscriptions) subscription.resubscribe();
  }

  /** Moves all subscriptions to another connection, or those of some channels. */
  moveSubscriptions(which: (channel: string) => boolean = () => true): void {
    for (const subscription of this.#subscriptions) if (which(subscription.channel)) subscription.move();
  }

  protected replica(name: string, dial: Dial): RedisNode {
    let connection = this.#replicas.get(name);
    if (connection === undefined) {
      connection = new NodeConnection(name, (cancel) => dial(addressOf(name), cancel), this.system);
      this.#replicas.set(name, connection);
    }
    const replica = connection;
    return { name, isPrimary: false, send: (command, call) => replica.send(command, call) };
  }
}

/** Connects to a primary. Throws if the node is not safe to lock on. */
export async function connectVetted(
  dial: Dial,
  name: string,
  env: TopologyEnv,
  cancel?: AbortSignal,
): Promise<Connection> {
  const connection = await dial(addressOf(name), cancel);
  try {
    await env.vet(connection);
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** Whoever opens something gets the reason itself. */
export async function withCause<T>(promise: Promise<T>): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    throw error instanceof NotSentError ? error.cause : error;
  }
}
