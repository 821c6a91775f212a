// A sentinel client of node-redis (5 and 6) that was given, behind the port. It follows the primary by itself and cannot be
// duplicated, so commands and the one subscription go through it; it keeps a connection of its own for subscriptions.

import type { Patience, RedisPort, Reply } from "./port.ts";
import { PLAIN } from "./node-redis.ts";

interface NodeRedisSentinel {
  sendCommand(isReadonly: boolean, args: readonly string[], options?: object): Promise<unknown>;
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  unsubscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
}

export class NodeRedisSentinelPort implements RedisPort {
  readonly keyPrefix = "";
  readonly #client: NodeRedisSentinel;
  readonly #stops = new Set<() => Promise<void>>();

  constructor(client: object) {
    this.#client = client as NodeRedisSentinel;
  }

  /** While there is no primary the client keeps the command; what is then sent late changes nothing (P8). */
  send(words: readonly string[], _patience: Patience): Promise<Reply> {
    return this.#client.sendCommand(false, words, PLAIN) as Promise<Reply>;
  }

  async subscribe(channel: string, hear: (message: string) => void): Promise<() => Promise<void>> {
    const stop = async (): Promise<void> => {
      this.#stops.delete(stop);
      // A client that has been closed meanwhile listens to nothing any more.
      await this.#client.unsubscribe(channel, hear).catch(() => {});
    };
    this.#stops.add(stop);
    await this.#client.subscribe(channel, hear);
    return stop;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#stops].map((stop) => stop()));
  }
}
