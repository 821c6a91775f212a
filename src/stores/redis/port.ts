// The slice of a Redis client that the store needs, as an interface of our own. Adapters implement it for node-redis and for
// ioredis, and a simulated server can stand behind it too. It never retries, except that a script which the server does
// not know is sent once more with its text.

import type { CallContext } from "../shared/retry-while-unsent.ts";

export interface Script {
  readonly name: string;
  /** By which the server knows the text. */
  readonly sha: string;
  readonly text: string;
}

/** Read only where a command has to wait for a connection. */
export type Patience = CallContext;

export type Reply = string | number | null | undefined | boolean | Uint8Array | readonly Reply[];

export type Word = string | Uint8Array;

/**
 * One connection that ends with its first failure and is never replaced unseen: what belongs to a connection (WATCH, and the
 * writes that WAIT waits for) cannot be lost without a word. Commands leave in the order of the calls. Replies come as bytes.
 */
export interface Session {
  readonly open: boolean;
  send(words: readonly Word[]): Promise<Reply>;
  close(): void;
}

/** Whatever can be sent a command. */
export interface Sender {
  /** One command. Rejects with the client's own error; while there is no connection it waits as long as `patience` does. */
  send(words: readonly string[], patience: Patience, key?: string): Promise<Reply>;
}

/** One server of several. */
export interface RedisNode extends Sender {
  /** host:port */
  readonly name: string;
  readonly primary: boolean;
}

export interface RedisPort extends Sender {
  /** What the client itself puts before every key that it knows as one. */
  readonly keyPrefix: string;
  /** Why a client that reconnects has no connection at the moment, where that is known. */
  readonly failure?: Error | null;
  /** Where the keys are spread over several nodes: the part that a key belongs to. No script reaches over two of them. */
  slotOf?(key: string): number;
  /** Where there are several nodes: those that are known at the moment. */
  nodes?(patience: Patience): Promise<readonly RedisNode[]>;
  /** Where sentinels name the primary: what one of them says to CKQUORUM, its refusal included. */
  quorum?(patience: Patience): Promise<string>;
  /** Listens on a connection of its own, over every reconnection. Gives the way to stop it. */
  subscribe(channel: string, hear: (message: string) => void): Promise<() => Promise<void>>;
  /** One more connection, to this node of several; absent where the client cannot be duplicated. */
  session?(node: string): Promise<Session>;
  /** Where the keys are spread over several nodes: the one that serves this key at the moment. */
  nodeOf?(name: string): string;
  /** Ends what was opened here, never what was given. */
  close(): Promise<void>;
}

export async function runScript(
  port: Sender,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
  patience: Patience,
): Promise<Reply> {
  const rest = [String(keys.length), ...keys, ...args];
  try {
    return await port.send(["EVALSHA", script.sha, ...rest], patience, keys[0]);
  } catch (error) {
    // Nothing has run: the server was restarted, or somebody flushed its scripts.
    if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
    return port.send(["EVAL", script.text, ...rest], patience, keys[0]);
  }
}

/** A reply as text: clients may be set to give bytes or numbers. */
export function textOf(reply: Reply): string {
  if (typeof reply === "string") return reply;
  if (reply instanceof Uint8Array) return Buffer.from(reply).toString();
  return reply === null || reply === undefined || typeof reply === "object" ? "" : String(reply);
}

export function listOf(reply: Reply): readonly Reply[] {
  return Array.isArray(reply) ? (reply as readonly Reply[]) : [];
}
