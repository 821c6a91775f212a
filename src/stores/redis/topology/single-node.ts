// One node behind the port, over connections of our own. `connect` may find another server each time it is
// called: a DNS name that moves, or the primary that sentinels name (sentinel.ts).

import { NEVER_ABORTED } from "../../shared/never-aborted.ts";
import type { CallContext, Reply } from "../client/port.ts";
import type { Connect, Connection } from "./connection.ts";
import { type ConnectionSystem, NodeConnection } from "./node-connection.ts";
import { Topology, withCause } from "./topology.ts";

export class SingleNode extends Topology {
  protected readonly connection: NodeConnection;
  readonly #connect: Connect;
  readonly #connectSubscriber: Connect;

  constructor(
    connect: Connect,
    keyPrefix: string,
    system: ConnectionSystem,
    connectSubscriber: Connect = connect,
  ) {
    super(keyPrefix, system);
    this.#connect = connect;
    this.#connectSubscriber = connectSubscriber;
    // After a half-open connection, those of the subscriptions are suspect too.
    this.connection = new NodeConnection("Redis", connect, system, {
      onDrop: () => this.moveSubscriptions(),
    });
  }

  get failure(): Error | null {
    return this.connection.failure;
  }

  /** Makes the first connection, in one attempt, so that its opener gets the reason of a failure. */
  async open(): Promise<this> {
    try {
      await withCause(this.connection.connect({ signal: NEVER_ABORTED }));
      return this;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  send(command: readonly string[], call: CallContext): Promise<Reply> {
    this.resubscribe();
    const { connection } = this;
    if (connection.isReady) return connection.sendNow(command, call);
    return this.retry(call, () => connection.send(command, call));
  }

  override close(): Promise<void> {
    this.connection.close();
    return super.close();
  }

  protected connectSubscriber(_channel: string, cancel?: AbortSignal): Promise<Connection> {
    return this.#connectSubscriber(cancel);
  }

  protected connectDedicated(_node: string, cancel?: AbortSignal): Promise<Connection> {
    return this.#connect(cancel);
  }
}
