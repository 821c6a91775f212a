// A link by node-redis (4 to 6): a client that does not reconnect and queues nothing.

import { Life, type Address, type Dial, type Link, openLink, refusePing } from "./link.ts";
import { BYTES, endNodeRedis, type NodeRedisClient, PLAIN } from "./node-redis.ts";
import type { Reply, Word } from "./port.ts";

const CONNECT_MS = 2_000;

/** What a client for a link is made or duplicated with. Without an address, it keeps its own. */
export function linkOptions(to: Address | null, socket: object): object {
  return {
    ...(to === null ? {} : { url: undefined }),
    socket: { ...socket, ...to, connectTimeout: CONNECT_MS, reconnectStrategy: false },
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
  return (to, cancel) => nodeRedisLink(make(to), cancel);
}

/** `client`: made with what `linkOptions` gives, and not connected yet. */
export function nodeRedisLink(client: NodeRedisClient, cancel?: AbortSignal): Promise<Link> {
  return openLink(new NodeRedisLink(client), cancel);
}

class NodeRedisLink implements Link {
  readonly #client: NodeRedisClient;
  readonly #life = new Life();
  /** It has a socket. One that is destroyed before would connect all the same, and stay. */
  #connected = false;

  constructor(client: NodeRedisClient) {
    this.#client = client;
    client.on("error", (error: unknown) => this.#over(error));
    client.on("end", () => this.#over());
    client.on("connect", () => {
      this.#connected = true;
      if (this.#life.over) void endNodeRedis(client);
    });
  }

  get alive(): boolean {
    return this.#life.alive;
  }

  async open(): Promise<void> {
    // A client whose connection is ended during the greeting may wait for it for ever.
    const ended = new Promise<void>((resolve) => this.#life.onEnd(resolve));
    try {
      if (!this.#life.over) await Promise.race([this.#client.connect(), ended]);
      // A server that still loads its data greets, and then refuses everything else.
      if (!this.#life.over) await this.send(["PING"]).catch(refusePing);
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
    if (!before && this.#connected) void endNodeRedis(this.#client);
  }
}
