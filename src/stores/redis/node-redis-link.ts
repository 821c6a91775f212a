// A link by node-redis (4 to 6): a client that does not reconnect and queues nothing.

import { Life, type Address, type Dial, type Link } from "./link.ts";
import { BYTES, endNodeRedis, type NodeRedisClient, PLAIN } from "./node-redis.ts";
import type { Reply, Word } from "./port.ts";

const CONNECT_MS = 2_000;

/** What a client for a link is made or duplicated with. */
export function linkOptions({ host, port }: Address, socket: object): object {
  return {
    url: undefined,
    socket: { ...socket, host, port, connectTimeout: CONNECT_MS, reconnectStrategy: false },
    disableOfflineQueue: true,
    RESP: 2,
    // These only work with RESP 3.
    clientSideCache: undefined,
    emitInvalidate: undefined,
    maintNotifications: "disabled",
  };
}

/** `make` is given what `linkOptions` gives. */
export function nodeRedisDial(make: (to: Address) => NodeRedisClient): Dial {
  return async (to) => {
    const link = new NodeRedisLink(make(to));
    await link.open();
    return link;
  };
}

class NodeRedisLink implements Link {
  readonly #client: NodeRedisClient;
  readonly #life = new Life();

  constructor(client: NodeRedisClient) {
    this.#client = client;
    client.on("error", (error: unknown) => this.#over(error));
    client.on("end", () => this.#over());
  }

  get alive(): boolean {
    return this.#life.alive;
  }

  async open(): Promise<void> {
    try {
      await this.#client.connect();
    } catch (error) {
      this.#over(error);
    }
    if (this.#life.over) throw this.#life.failure;
    this.#life.begin();
    this.#client.unref?.();
  }

  send(words: readonly string[]): Promise<Reply> {
    return this.#client.sendCommand(words, PLAIN) as Promise<Reply>;
  }

  sendBytes(words: readonly Word[]): Promise<Reply> {
    return this.#client.sendCommand(words, BYTES) as Promise<Reply>;
  }

  async subscribe(channel: string, hear: (message: string) => void): Promise<void> {
    await this.#client.subscribe(channel, hear);
  }

  onEnd(tell: () => void): void {
    this.#life.onEnd(tell);
  }

  end(): void {
    this.#over();
  }

  #over(cause?: unknown): void {
    const before = this.#life.over;
    this.#life.end(cause);
    if (!before) void endNodeRedis(this.#client);
  }
}
