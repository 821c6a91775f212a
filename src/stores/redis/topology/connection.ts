// One connection to one node. It never reconnects: when it ends, its user finds out where to connect next
// (node-connection.ts). The clients' own ways of following a failover differ too much to build on: some never
// look for a new primary while the old one does not answer.

import type { Reply } from "../client/port.ts";

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Connection {
  readonly isOpen: boolean;
  /** Commands leave in the order of the calls. */
  send(command: readonly string[]): Promise<Reply>;
  subscribe(channel: string, onMessage: (message: string) => void): Promise<void>;
  /** Calls `listener` once, when the connection has ended for any reason; at once if it already has. */
  onEnd(listener: () => void): void;
  close(): void;
}

/** Resolves with a connection that has answered. `cancel` closes it, also while it is being made. */
export type Connect = (cancel?: AbortSignal) => Promise<Connection>;
export type Dial = (to: Address, cancel?: AbortSignal) => Promise<Connection>;

export function nameOf({ host, port }: Address): string {
  return `${host}:${port}`;
}

/** The host may be an IPv6 address, which has colons of its own. */
export function addressOf(name: string): Address {
  const colon = name.lastIndexOf(":");
  return { host: name.slice(0, colon), port: Number(name.slice(colon + 1)) };
}

/** A connection by a client that does not reconnect and queues nothing. */
export abstract class ClientConnection implements Connection {
  #state: "connecting" | "open" | "ended" = "connecting";
  /** The first error that was reported. */
  #cause: unknown;
  readonly #endListeners: (() => void)[] = [];

  abstract send(command: readonly string[]): Promise<Reply>;
  abstract subscribe(channel: string, onMessage: (message: string) => void): Promise<void>;
  protected abstract connectClient(): Promise<unknown>;
  protected abstract closeClient(): void;

  get isOpen(): boolean {
    return this.#state === "open";
  }

  get hasEnded(): boolean {
    return this.#state === "ended";
  }

  /** Resolves when the server has answered. Closes the connection when `cancel` aborts, also later. */
  async open(cancel?: AbortSignal): Promise<this> {
    const close = (): void => this.close();
    if (cancel?.aborted === true) close();
    cancel?.addEventListener("abort", close, { once: true });
    this.onEnd(() => cancel?.removeEventListener("abort", close));
    // A client whose connection ends during the handshake may wait forever.
    const ended = new Promise<void>((resolve) => this.onEnd(resolve));
    try {
      if (!this.hasEnded) await Promise.race([this.connectClient(), ended]);
      // Clients are ready before the login is answered, and a server that loads its data accepts connections.
      if (!this.hasEnded) await Promise.race([this.send(["PING"]).catch(ignoreForbidden), ended]);
    } catch (error) {
      this.end(error);
    }
    if (this.hasEnded) throw this.#failure();
    this.#state = "open";
    return this;
  }

  onEnd(listener: () => void): void {
    if (this.hasEnded) listener();
    else this.#endListeners.push(listener);
  }

  close(): void {
    this.end(new Error("the connection was closed"));
  }

  protected end(cause?: unknown): void {
    this.setCause(cause);
    if (this.hasEnded) return;
    this.#state = "ended";
    this.closeClient();
    for (const listener of this.#endListeners.splice(0)) listener();
  }

  protected setCause(cause: unknown): void {
    this.#cause ??= cause;
  }

  #failure(): Error {
    if (this.#cause instanceof Error) return this.#cause;
    return new Error("the server hung up", { cause: this.#cause });
  }
}

/** A user who may not even send PING has logged in. */
function ignoreForbidden(error: unknown): void {
  if (!(error instanceof Error) || !error.message.startsWith("NOPERM")) throw error;
}
