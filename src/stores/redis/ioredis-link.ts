// A link by ioredis (5 and 6): a client that does not reconnect and queues nothing.

import type { IoredisClient } from "./ioredis.ts";
import { type Address, type Dial, Life, type Link, openLink, refusePing } from "./link.ts";
import type { Reply, Word } from "./port.ts";

const CONNECT_MS = 2_000;

/** What a client for a link is made or duplicated with. Without an address, it keeps its own. */
export function linkOptions(to: Address | null): object {
  return {
    ...to,
    lazyConnect: true,
    retryStrategy: () => null,
    reconnectOnError: null,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    enableAutoPipelining: false,
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: null,
    connectTimeout: CONNECT_MS,
    readOnly: false,
    stringNumbers: false,
  };
}

/** `make` is given what `linkOptions` gives. */
export function ioredisDial(make: (to: Address) => IoredisClient): Dial {
  return (to, cancel) => ioredisLink(make(to), cancel);
}

/** `client`: made with what `linkOptions` gives, and not connected yet. */
export function ioredisLink(client: IoredisClient, cancel?: AbortSignal): Promise<Link> {
  return openLink(new IoredisLink(client), cancel);
}

class IoredisLink implements Link {
  readonly #client: IoredisClient;
  readonly #life = new Life();
  readonly #unanswered = new Set<(error: Error) => void>();

  constructor(client: IoredisClient) {
    this.#client = client;
    this.#life.onEnd(() => {
      for (const reject of this.#unanswered) reject(new Error("Connection is closed."));
      this.#unanswered.clear();
    });
    client.on("error", (error: unknown) => {
      this.#life.cause ??= error;
    });
    client.on("connect", () => client.stream?.unref?.());
    client.on("close", () => this.#life.end());
    client.on("end", () => this.#life.end());
  }

  get alive(): boolean {
    return this.#life.alive;
  }

  async open(): Promise<void> {
    try {
      await this.#untilEnded(this.#client.connect());
      // It is ready before the answer to its login has come; a user that may not even ask this has logged in.
      await this.send(["PING"]).catch(refusePing);
    } catch (error) {
      this.#client.disconnect();
      this.#life.end(error);
    }
    if (this.#life.over) throw this.#life.failure;
    this.#life.begin();
  }

  send(words: readonly string[]): Promise<Reply> {
    const [command, ...args] = words as readonly [string, ...string[]];
    return this.#untilEnded(this.#client.call(command, ...args) as Promise<Reply>);
  }

  sendBytes(words: readonly Word[]): Promise<Reply> {
    const [command, ...args] = words as readonly [string, ...Word[]];
    return this.#untilEnded(this.#client.callBuffer(command, ...args) as Promise<Reply>);
  }

  async subscribe(channel: string, hear: (message: string) => void): Promise<void> {
    this.#client.on("message", (_channel: string, message: string) => hear(message));
    await this.#client.subscribe(channel);
  }

  onEnd(tell: () => void): void {
    this.#life.onEnd(tell);
  }

  end(): void {
    this.#client.disconnect();
    this.#life.end();
  }

  /** ioredis drops the commands that had no reply when their connection closed, and settles none of them. */
  #untilEnded<T>(sent: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#unanswered.add(reject);
      sent.then(resolve, reject).finally(() => this.#unanswered.delete(reject));
    });
  }
}
