// A link by ioredis (5 and 6): a client that does not reconnect and queues nothing.

import type { IoredisClient } from "./ioredis.ts";
import { type Address, type Dial, Life, type Link } from "./link.ts";
import type { Reply, Word } from "./port.ts";

const CONNECT_MS = 2_000;

/** What a client for a link is made or duplicated with. */
export function linkOptions({ host, port }: Address): object {
  return {
    host,
    port,
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
  return async (to) => {
    const link = new IoredisLink(make(to));
    await link.open();
    return link;
  };
}

function refuse(error: unknown): void {
  if (!(error instanceof Error) || !error.message.startsWith("NOPERM")) throw error;
}

class IoredisLink implements Link {
  readonly #client: IoredisClient;
  readonly #life = new Life();

  constructor(client: IoredisClient) {
    this.#client = client;
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
      await this.#client.connect();
      // It is ready before the answer to its login has come; a user that may not even ask this has logged in.
      await this.send(["PING"]).catch(refuse);
    } catch (error) {
      this.#client.disconnect();
      this.#life.end(error);
    }
    if (this.#life.over) throw this.#life.failure;
    this.#life.begin();
  }

  send(words: readonly string[]): Promise<Reply> {
    const [command, ...args] = words as readonly [string, ...string[]];
    return this.#client.call(command, ...args) as Promise<Reply>;
  }

  sendBytes(words: readonly Word[]): Promise<Reply> {
    const [command, ...args] = words as readonly [string, ...Word[]];
    return this.#client.callBuffer(command, ...args) as Promise<Reply>;
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
}
