// One node: its name, its connection, and what is known of it. A node that cannot be reached when the store is opened is tried
// again whenever it is asked; nothing here waits or repeats on its own account.

import type { System } from "../../core/system.ts";
import { type Patience, type RedisPort, type Reply, runScript } from "../redis/port.ts";
import type { Voter } from "./quorum.ts";
import { scripts, type ScriptName } from "./scripts.generated.ts";

/** Between two attempts to connect to a node that refused. */
const RECONNECT_MS = 500;

export type Connect = () => RedisPort | Promise<RedisPort>;

export class Node implements Voter {
  /** "node 3" and its address, for people. */
  readonly name: string;
  doubted = false;
  slow = false;
  /** The run id under which its marker was last seen. */
  run = "";
  /** Every write is on its disk before it is acknowledged. */
  durable = false;
  readonly #connect: Connect;
  readonly #system: System;
  #port: RedisPort | null = null;
  #connecting: Promise<RedisPort> | null = null;
  #failure: Error | null = null;
  #triedMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(name: string, connect: Connect, system: System) {
    this.name = name;
    this.#connect = connect;
    this.#system = system;
  }

  get port(): RedisPort | null {
    return this.#port;
  }

  /** Why there is no connection at the moment, where that is known. */
  get failure(): Error | null {
    return this.#port === null ? this.#failure : (this.#port.failure ?? null);
  }

  /** Resolves when it is connected. */
  connected(): Promise<RedisPort> {
    if (this.#port !== null) return Promise.resolve(this.#port);
    if (this.#connecting !== null) return this.#connecting;
    const nowMs = this.#system.monoMs();
    if (this.#failure !== null && nowMs - this.#triedMs < RECONNECT_MS) return Promise.reject(this.#failure);
    this.#triedMs = nowMs;
    this.#connecting = this.#open();
    return this.#connecting;
  }

  send(words: readonly string[], patience: Patience): Promise<Reply> {
    if (this.#port !== null) return this.#port.send(words, patience);
    return this.connected().then((port) => port.send(words, patience));
  }

  script(
    name: ScriptName,
    keys: readonly string[],
    args: readonly string[],
    patience: Patience,
  ): Promise<Reply> {
    if (this.#port !== null) return runScript(this.#port, scripts[name], keys, args, patience);
    return this.connected().then((port) => runScript(port, scripts[name], keys, args, patience));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#port?.close();
  }

  async #open(): Promise<RedisPort> {
    try {
      const port = await this.#connect();
      if (this.#closed) {
        await port.close();
        throw new Error("the redlock store is closed");
      }
      this.#port = port;
      this.#failure = null;
      return port;
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
      throw this.#failure;
    } finally {
      this.#connecting = null;
    }
  }
}
