// One connection to one node, which is never made again: when it ends, whoever uses it finds out where to connect to next.
// What knows several nodes is built of these, because the clients' own ways of following a failover differ too much: some
// never look for a new primary while the old one does not answer.

import type { Reply, Session, Word } from "./port.ts";

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Link {
  readonly alive: boolean;
  send(words: readonly string[]): Promise<Reply>;
  /** The same with replies as bytes. */
  sendBytes(words: readonly Word[]): Promise<Reply>;
  subscribe(channel: string, hear: (message: string) => void): Promise<void>;
  /** Called once, when the connection has ended for whatever reason; at once if it has already. */
  onEnd(tell: () => void): void;
  end(): void;
}

/** Resolves when the node has greeted us. `cancel` ends the connection, also while it is made. */
export type Dial = (to: Address, cancel?: AbortSignal) => Promise<Link>;

/** How to reach the nodes of a Redis that has several, and what its client does to names. */
export interface Switchboard {
  readonly node: Dial;
  readonly keyPrefix: string;
}

export function nameOf({ host, port }: Address): string {
  return `${host}:${port}`;
}

export function addressOf(name: string): Address {
  const colon = name.lastIndexOf(":");
  return { host: name.slice(0, colon), port: Number(name.slice(colon + 1)) };
}

/** A link as a session. `failed` hears of what was refused. */
export function sessionBy(link: Link, failed: (error: unknown) => void = () => {}): Session {
  return {
    get open() {
      return link.alive;
    },
    send: (words) =>
      link.sendBytes(words).catch((error: unknown) => {
        failed(error);
        throw error;
      }),
    close: () => link.end(),
  };
}

/** Opens a link. It ends when `cancel` aborts, also later. */
export async function openLink<L extends Link & { open(): Promise<void> }>(
  link: L,
  cancel: AbortSignal | undefined,
): Promise<L> {
  const end = (): void => link.end();
  if (cancel?.aborted === true) end();
  cancel?.addEventListener("abort", end, { once: true });
  link.onEnd(() => cancel?.removeEventListener("abort", end));
  await link.open();
  return link;
}

/** The error of a PING, unless it is that the user may not even ask this: then it has logged in. */
export function refusePing(error: unknown): void {
  if (!(error instanceof Error) || !error.message.startsWith("NOPERM")) throw error;
}

/** Whether a connection lives, and who wants to know when it does not. */
export class Life {
  #state: "young" | "alive" | "over" = "young";
  readonly #tell: (() => void)[] = [];
  /** The first reason that was heard of. */
  cause: unknown;

  get alive(): boolean {
    return this.#state === "alive";
  }

  get over(): boolean {
    return this.#state === "over";
  }

  /** Why it is over. */
  get failure(): Error {
    if (this.cause instanceof Error) return this.cause;
    return new Error("the server hung up", { cause: this.cause });
  }

  begin(): void {
    if (this.#state === "young") this.#state = "alive";
  }

  end(cause?: unknown): void {
    this.cause ??= cause;
    if (this.#state === "over") return;
    this.#state = "over";
    for (const tell of this.#tell.splice(0)) tell();
  }

  onEnd(tell: () => void): void {
    if (this.#state === "over") tell();
    else this.#tell.push(tell);
  }
}
