// A connection for one purpose: WAIT counts the writes of its own connection only, and WATCH is forgotten
// with its connection. It is opened when it is first needed and again after it has ended, by the policy of
// node-connection.ts. It asks for the role first: locks live on the primary, and a failover may have made
// this node a replica.

import { sessionError } from "../errors.ts";
import { type CallContext, listOf, type RedisPort, textOf } from "../client/port.ts";
import type { Connection } from "./connection.ts";
import { type ConnectionSystem, NodeConnection } from "./node-connection.ts";

async function connectToPrimary(port: RedisPort, node: string, cancel?: AbortSignal): Promise<Connection> {
  if (port.dedicate === undefined) throw sessionError();
  const connection = await port.dedicate(node, cancel);
  try {
    await rejectReplica(connection);
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

async function rejectReplica(connection: Connection): Promise<void> {
  const role = await connection.send(["ROLE"]).catch((error: unknown) => {
    // For a user who may not ask, the first write tells.
    if (error instanceof Error && /^(NOPERM|ERR unknown command)/.test(error.message)) return null;
    throw error;
  });
  if (role !== null && textOf(listOf(role)[0]) !== "master")
    throw new Error("READONLY this node is a replica");
}

/** Resolves with an open connection. */
export type GetConnection = (call: CallContext) => Promise<Connection>;

/** One worker per node, each with a dedicated connection. */
export class PerNode<T> {
  readonly #port: RedisPort;
  readonly #system: ConnectionSystem;
  readonly #make: (connection: GetConnection) => T;
  readonly #all = new Map<string, T>();

  constructor(port: RedisPort, system: ConnectionSystem, make: (connection: GetConnection) => T) {
    this.#port = port;
    this.#system = system;
    this.#make = make;
  }

  /** Uses the worker of the node that serves this key. */
  async run<R>(key: string, use: (worker: T) => Promise<R>): Promise<R> {
    const node = this.#port.nodeOf?.(key) ?? "";
    try {
      return await use(this.#workerOf(node));
    } catch (error) {
      this.#port.reportError?.(error, node);
      throw error;
    }
  }

  /** By node and not by key: the slot of a key may move. */
  #workerOf(node: string): T {
    let worker = this.#all.get(node);
    if (worker === undefined) {
      const connection = new NodeConnection(
        node === "" ? "Redis" : node,
        (cancel) => connectToPrimary(this.#port, node, cancel),
        this.#system,
      );
      worker = this.#make((call) => connection.connect(call));
      this.#all.set(node, worker);
    }
    return worker;
  }
}
