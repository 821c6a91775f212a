// A subscription that follows the primary. When its connection ends, it reconnects by the policy of
// node-connection.ts; if that fails, it tries again with the next command that is sent. Messages that are
// published meanwhile are lost. Nothing depends on them.

import { NEVER_ABORTED } from "../../shared/never-aborted.ts";
import type { Connect } from "./connection.ts";
import { type ConnectionSystem, NodeConnection } from "./node-connection.ts";

const QUIET = (): void => {};

export class Subscription {
  readonly channel: string;
  readonly #connection: NodeConnection;
  #isClosed = false;
  /** How often it was moved. */
  #moves = 0;

  constructor(
    connect: Connect,
    channel: string,
    onMessage: (message: string) => void,
    system: ConnectionSystem,
  ) {
    this.channel = channel;
    const subscribe: Connect = async (cancel) => {
      const connection = await connect(cancel);
      try {
        await connection.subscribe(channel, onMessage);
        return connection;
      } catch (error) {
        connection.close();
        throw error;
      }
    };
    const onEnd = (): void => this.resubscribe();
    this.#connection = new NodeConnection(`the channel ${channel}`, subscribe, system, { onEnd });
  }

  /** Resolves when messages can arrive. Makes one attempt, and one more for each move that ended it. */
  async start(): Promise<void> {
    const moves = this.#moves;
    try {
      await this.#connection.connect({ signal: NEVER_ABORTED });
    } catch (error) {
      if (moves === this.#moves || this.#isClosed) throw error;
      await this.start();
    }
  }

  /** Makes one attempt in the background if there is no connection. */
  resubscribe(): void {
    if (this.#connection.current === null && !this.#isClosed) this.start().catch(QUIET);
  }

  /** The node is not the right one any more, or the connection is suspect. */
  move(): void {
    this.#moves += 1;
    this.#connection.drop();
    this.resubscribe();
  }

  close(): void {
    this.#isClosed = true;
    this.#connection.close();
  }
}
