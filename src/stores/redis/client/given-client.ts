// A client of one node that was given, behind the port. The client is never changed, connected or closed: it
// only sends commands. Subscriptions and dedicated connections use duplicates of it, and so do commands once
// the client has stopped answering (shared/connection-health.ts).

import { ConnectionHealth } from "../../shared/connection-health.ts";
import { retryWhileUnsent } from "../../shared/retry-while-unsent.ts";
import type { Connect, Connection } from "../topology/connection.ts";
import { type ConnectionSystem, NotSentError } from "../topology/node-connection.ts";
import { SingleNode } from "../topology/single-node.ts";
import { type CallContext, type RedisPort, type Reply, textOf } from "./port.ts";

/** What differs between the drivers. */
export interface ClientAdapter {
  readonly keyPrefix: string;
  isReady(): boolean;
  /** The client has no connection, and will try to have one. */
  isConnecting(): boolean;
  send(command: readonly string[]): Promise<Reply>;
  /** Duplicates the client. */
  readonly connect: Connect;
}

export class GivenClient implements RedisPort {
  readonly keyPrefix: string;
  readonly #client: ClientAdapter;
  readonly #system: ConnectionSystem;
  readonly #health: ConnectionHealth;
  readonly #database: ClientDatabase;
  readonly #duplicates: SingleNode;
  #isReplaced = false;

  constructor(client: ClientAdapter, system: ConnectionSystem) {
    this.#client = client;
    this.#system = system;
    this.keyPrefix = client.keyPrefix;
    this.#health = new ConnectionHealth(system);
    const database = new ClientDatabase(client);
    this.#database = database;
    this.#duplicates = new SingleNode(
      (cancel) => database.connect(cancel),
      this.keyPrefix,
      system,
      client.connect,
    );
  }

  send(command: readonly string[], call: CallContext): Promise<Reply> {
    if (this.#isReplaced || this.#replaceIfSilent()) return this.#duplicates.send(command, call);
    this.#duplicates.resubscribe();
    // While a store opens there is no timeout to retry within: the client's own queue waits.
    if (call.timeoutMs === undefined || this.#client.isReady()) return this.#sendNow(command, call);
    const sendOnce = async (): Promise<Reply> => {
      if (this.#client.isConnecting()) throw new NotSentError(new Error("there is no connection to Redis"));
      return this.#sendNow(command, call);
    };
    const isUnsent = (error: unknown): boolean => error instanceof NotSentError;
    return retryWhileUnsent(call, () => this.#system.monoMs(), sendOnce, { isUnsent });
  }

  subscribe(channel: string, onMessage: (message: string) => void): Promise<() => Promise<void>> {
    return this.#duplicates.subscribe(channel, onMessage);
  }

  dedicate(node: string, cancel?: AbortSignal): Promise<Connection> {
    return this.#duplicates.dedicate(node, cancel);
  }

  close(): Promise<void> {
    return this.#duplicates.close();
  }

  #sendNow(command: readonly string[], { timeoutMs }: CallContext): Promise<Reply> {
    const reply = this.#health.watch(timeoutMs, () => this.#client.send(command));
    this.#database.learn();
    return reply;
  }

  /** The client no longer answers. It is replaced only if its database is known. */
  #replaceIfSilent(): boolean {
    if (!this.#health.isSilent || !this.#database.isKnown) return false;
    this.#isReplaced = true;
    // Their connections are as old as that of the client.
    this.#duplicates.moveSubscriptions();
    return true;
  }
}

/**
 * The database that the client works on. A client may have been told SELECT, which a duplicate does not know:
 * locks in another database would exclude nobody.
 */
class ClientDatabase {
  readonly #client: ClientAdapter;
  #isAsked = false;
  /** null where the server does not say, undefined until it has answered. */
  #database: string | null | undefined;

  constructor(client: ClientAdapter) {
    this.#client = client;
  }

  get isKnown(): boolean {
    return typeof this.#database === "string";
  }

  /** Asks once, on the client's own connection. */
  learn(): void {
    if (this.#isAsked) return;
    this.#isAsked = true;
    void databaseOf((command) => this.#client.send(command)).then((database) => {
      this.#database = database;
    });
  }

  /** Connects a duplicate that works on the same database. */
  async connect(cancel?: AbortSignal): Promise<Connection> {
    const connection = await this.#client.connect(cancel);
    if (!this.isKnown) return connection;
    const database = await databaseOf((command) => connection.send(command));
    if (database === this.#database) return connection;
    connection.close();
    throw new Error(
      `a duplicate of the given client works on database ${database} instead of ${this.#database}, ` +
        "which the client was told by SELECT: give redis() a URL, or the client its database as an option",
    );
  }
}

/** null where the server does not say: an old one, or a user who may not ask. */
async function databaseOf(send: (command: readonly string[]) => Promise<Reply>): Promise<string | null> {
  try {
    return / db=(\d+)/.exec(textOf(await send(["CLIENT", "INFO"])))?.[1] ?? null;
  } catch {
    return null;
  }
}
