// node-redis (packages `redis` and `@redis/client`, 4 to 6): a client that was given, and connections made
// with it. A client is known by its shape.

import { type Address, ClientConnection, type Connection } from "../topology/connection.ts";
import type { ClientAdapter } from "./given-client.ts";
import type { Reply } from "./port.ts";

/** The part of a client that is used. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly options?: { readonly socket?: object } | undefined;
  sendCommand(command: readonly string[], options?: object): Promise<unknown>;
  duplicate(overrides?: object): NodeRedisClient;
  connect(): Promise<unknown>;
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  on(event: string, listener: (...args: readonly unknown[]) => void): unknown;
  unref?(): void;
  /** 5 and later. */
  destroy?(): void;
  /** Up to 4. */
  disconnect?(): Promise<void>;
}

export interface NodeRedisModule {
  createClient(options: object): NodeRedisClient;
}

const CONNECT_MS = 2_000;
/** Replaces a type mapping that the client may have been configured with. */
export const PLAIN: object = { typeMapping: {} };

export function isNodeRedis(client: object): client is NodeRedisClient {
  const { sendCommand, duplicate, isOpen, subscribe } = client as Partial<NodeRedisClient>;
  const isPlain = typeof isOpen === "boolean" && typeof sendCommand === "function";
  return (
    isPlain && typeof duplicate === "function" && typeof subscribe === "function" && !("masters" in client)
  );
}

/** For `given-client.ts`. */
export function adaptNodeRedis(client: NodeRedisClient): ClientAdapter {
  return {
    keyPrefix: "",
    isReady: () => client.isReady,
    // A client that is closed, or was never connected, rejects with an error that says so.
    isConnecting: () => client.isOpen && !client.isReady,
    send: (command) => client.sendCommand(command, PLAIN) as Promise<Reply>,
    connect: (cancel) =>
      connectNodeRedis(client.duplicate(nodeRedisOptions(null, client.options?.socket ?? {})), cancel),
  };
}

/** Options of a client for one connection. Without an address, a duplicate keeps its own. */
export function nodeRedisOptions(to: Address | null, socket: object): object {
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

/** `client` was made with `nodeRedisOptions` and is not connected yet. */
export function connectNodeRedis(client: NodeRedisClient, cancel?: AbortSignal): Promise<Connection> {
  return new NodeRedisConnection(client).open(cancel);
}

class NodeRedisConnection extends ClientConnection {
  readonly #client: NodeRedisClient;
  #hasSocket = false;

  constructor(client: NodeRedisClient) {
    super();
    this.#client = client;
    client.on("error", (error: unknown) => this.end(error));
    client.on("end", () => this.end());
    client.on("connect", () => {
      this.#hasSocket = true;
      if (this.hasEnded) this.closeClient();
    });
  }

  send(command: readonly string[]): Promise<Reply> {
    return this.#client.sendCommand(command, PLAIN) as Promise<Reply>;
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    await this.#client.subscribe(channel, onMessage);
  }

  protected async connectClient(): Promise<void> {
    await this.#client.connect();
    this.#client.unref?.();
  }

  /** A client that is destroyed before it has a socket would connect nevertheless. */
  protected closeClient(): void {
    if (!this.#hasSocket) return;
    try {
      if (this.#client.destroy !== undefined) this.#client.destroy();
      else this.#client.disconnect?.().catch(() => {});
    } catch {
      // The client was closed already.
    }
  }
}
