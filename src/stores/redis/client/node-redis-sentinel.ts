// A sentinel client of node-redis (5 and 6) that was given, behind the port. It follows the primary by itself
// and cannot be duplicated, so commands and the subscription go through it. It has a connection of its own
// for subscriptions.

import { PLAIN } from "./node-redis.ts";
import type { CallContext, RedisPort, Reply } from "./port.ts";

interface NodeRedisSentinelClient {
  sendCommand(isReadonly: boolean, command: readonly string[], options?: object): Promise<unknown>;
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  unsubscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
}

export class NodeRedisSentinel implements RedisPort {
  readonly keyPrefix = "";
  readonly #client: NodeRedisSentinelClient;
  readonly #stops = new Set<() => Promise<void>>();

  constructor(client: object) {
    this.#client = client as NodeRedisSentinelClient;
  }

  /** While there is no primary the client keeps the command. Sent late, it changes nothing (P8). */
  send(command: readonly string[], _call: CallContext): Promise<Reply> {
    return this.#client.sendCommand(false, command, PLAIN) as Promise<Reply>;
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<() => Promise<void>> {
    const stop = async (): Promise<void> => {
      this.#stops.delete(stop);
      // A client that was closed meanwhile has no subscriptions.
      await this.#client.unsubscribe(channel, onMessage).catch(() => {});
    };
    this.#stops.add(stop);
    await this.#client.subscribe(channel, onMessage);
    return stop;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#stops].map((stop) => stop()));
  }
}
