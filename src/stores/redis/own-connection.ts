// A connection of its own for what belongs to a connection: WAIT counts the writes of its own connection only, and WATCH is
// forgotten with it. Opened when it is first needed, and anew after it has failed. It asks for the role first: locks
// live on the primary, and a failover may have made this one a replica.

import { sessionError } from "./errors.ts";
import { listOf, type Patience, type RedisPort, type Session, textOf } from "./port.ts";
import { within } from "./shared-run.ts";

export class OwnConnection {
  readonly #port: RedisPort;
  readonly #node: string;
  #session: Session | null = null;
  #opening: Promise<Session> | null = null;

  /** `node`: as `nodeOf` names it. Not a key of that node: its slot may move. */
  constructor(port: RedisPort, node: string) {
    this.#port = port;
    this.#node = node;
  }

  /** When the first caller gives up on a connection that does not come about, the next one tries anew. */
  async get(patience: Patience): Promise<Session> {
    if (this.#session?.open === true) return this.#session;
    this.#opening ??= this.#open();
    const opening = this.#opening;
    try {
      return await within(patience, opening);
    } finally {
      if (this.#opening === opening) this.#opening = null;
    }
  }

  async #open(): Promise<Session> {
    if (this.#port.session === undefined) throw sessionError();
    const session = await this.#port.session(this.#node);
    try {
      await refuseReplica(session);
    } catch (error) {
      session.close();
      throw error;
    }
    // Another try may have come about first.
    if (this.#session?.open === true) session.close();
    else this.#session = session;
    return this.#session;
  }
}

async function refuseReplica(session: Session): Promise<void> {
  const role = await session.send(["ROLE"]).catch((error: unknown) => {
    // Who may not ask is told by the first write.
    if (error instanceof Error && /^(NOPERM|ERR unknown command)/.test(error.message)) return null;
    throw error;
  });
  if (role !== null && textOf(listOf(role)[0]) !== "master")
    throw new Error("READONLY this node is a replica");
}

/** One of something per node. */
export class PerNode<T> {
  readonly #port: RedisPort;
  readonly #make: (connection: OwnConnection) => T;
  readonly #all = new Map<string, T>();

  constructor(port: RedisPort, make: (connection: OwnConnection) => T) {
    this.#port = port;
    this.#make = make;
  }

  /** That of the node which serves this key. */
  of(name: string): T {
    const node = this.#port.nodeOf?.(name) ?? "";
    let one = this.#all.get(node);
    if (one === undefined) {
      one = this.#make(new OwnConnection(this.#port, node));
      this.#all.set(node, one);
    }
    return one;
  }
}
