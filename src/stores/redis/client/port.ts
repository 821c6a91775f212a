// The slice of a Redis client that the store needs, as an interface of our own. topology/ implements it over
// connections of our own, given-client.ts over a client of the caller, and the simulator over simulated
// servers.

import type { CallContext } from "../../shared/retry-while-unsent.ts";
import type { Connection } from "../topology/connection.ts";

export type { CallContext } from "../../shared/retry-while-unsent.ts";

export interface Script {
  readonly name: string;
  /** SHA-1 of the text, by which the server knows it. */
  readonly sha: string;
  readonly text: string;
}

export type Reply = string | number | null | undefined | boolean | Uint8Array | readonly Reply[];

export interface Sender {
  /**
   * Sends one command. Rejects with the error of the client or the server. While there is no connection, it
   * retries within the timeout of `call`. `key` says to which node of a Cluster the command belongs.
   */
  send(command: readonly string[], call: CallContext, key?: string): Promise<Reply>;
}

/** One server of several. */
export interface RedisNode extends Sender {
  /** host:port */
  readonly name: string;
  readonly isPrimary: boolean;
}

export interface RedisPort extends Sender {
  /** The prefix that the client itself puts before every key. */
  readonly keyPrefix: string;
  /** Why there is no connection at the moment, where that is known. */
  readonly failure?: Error | null;
  /** Cluster only: the slot of a key. A script cannot use keys of two slots. */
  slotOf?(key: string): number;
  /** Cluster only: the name of the node that serves a key at the moment. */
  nodeOf?(key: string): string;
  /** Cluster only: a dedicated connection to `node` failed, perhaps because a slot has moved. */
  reportError?(error: unknown, node: string): void;
  /** Sentinel and Cluster: the nodes that are known at the moment. */
  nodes?(call: CallContext): Promise<readonly RedisNode[]>;
  /** Sentinel only: the answer of one sentinel to CKQUORUM, also when it is an error. */
  quorum?(call: CallContext): Promise<string>;
  /** Subscribes on a connection of its own, over every reconnect. Resolves with the function that ends it. */
  subscribe(channel: string, onMessage: (message: string) => void): Promise<() => Promise<void>>;
  /**
   * Opens one more connection to `node`, as `nodeOf` names it. It never reconnects, so nothing that belongs
   * to a connection (WATCH, the writes that WAIT counts) is lost without an error. Absent where the client
   * cannot be duplicated.
   */
  dedicate?(node: string, cancel?: AbortSignal): Promise<Connection>;
  /** Closes the connections that were opened here, never a client that was given. */
  close(): Promise<void>;
}

/** Runs a script by its digest. If the server does not know the script, sends its text. */
export async function runScript(
  port: Sender,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
  call: CallContext,
): Promise<Reply> {
  const rest = [String(keys.length), ...keys, ...args];
  try {
    return await port.send(["EVALSHA", script.sha, ...rest], call, keys[0]);
  } catch (error) {
    // Nothing has run: the server was restarted, or its scripts were flushed.
    if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
    return port.send(["EVAL", script.text, ...rest], call, keys[0]);
  }
}

/** A reply as text. Clients may be configured to return bytes or numbers. */
export function textOf(reply: Reply): string {
  if (typeof reply === "string") return reply;
  if (reply instanceof Uint8Array) return Buffer.from(reply).toString();
  return reply === null || reply === undefined || typeof reply === "object" ? "" : String(reply);
}

export function listOf(reply: Reply): readonly Reply[] {
  return Array.isArray(reply) ? (reply as readonly Reply[]) : [];
}
