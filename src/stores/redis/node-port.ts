// One node behind the port, over connections of our own. A connection that ends or stops answering is made
// again with the next command (lane.ts), and so is that of a subscription (ear.ts).

import { ConnectionHealth, type HealthSystem } from "../shared/connection-health.ts";
import { retryWhileUnsent } from "../shared/retry-while-unsent.ts";
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import { Ear } from "./ear.ts";
import { Lane, NotSentError } from "./lane.ts";
import { type Link, sessionBy } from "./link.ts";
import { type Patience, type RedisPort, type Reply, type Session, textOf } from "./port.ts";

const PATIENT: Patience = { signal: NEVER_ABORTED };

export type DialNode = (cancel?: AbortSignal) => Promise<Link>;

export class NodePort implements RedisPort {
  readonly keyPrefix: string;
  readonly #dial: DialNode;
  readonly #system: HealthSystem;
  readonly #lane: Lane;
  readonly #ears = new Set<Ear>();
  readonly #sessions = new Set<Link>();

  /** `dial` gives a link that is ready to be used. */
  constructor(dial: DialNode, keyPrefix: string, system: HealthSystem) {
    this.keyPrefix = keyPrefix;
    this.#dial = dial;
    this.#system = system;
    this.#lane = new Lane("Redis", dial, system, () => {
      for (const ear of this.#ears) ear.move();
    });
  }

  /** The first connection fails at once, so that its opener hears why. */
  static async connect(dial: DialNode, keyPrefix: string, system: HealthSystem): Promise<NodePort> {
    const port = new NodePort(dial, keyPrefix, system);
    try {
      await port.#lane.connect(PATIENT);
      return port;
    } catch (error) {
      throw error instanceof NotSentError ? error.cause : error;
    }
  }

  get failure(): Error | null {
    return this.#lane.failure;
  }

  send(words: readonly string[], patience: Patience): Promise<Reply> {
    for (const ear of this.#ears) ear.mend();
    if (this.#lane.ready) return this.#lane.sendNow(words, patience);
    return retryWhileUnsent(
      patience,
      () => this.#system.monoMs(),
      () => this.#lane.send(words, patience),
      { isUnsent },
    );
  }

  async subscribe(channel: string, hear: (message: string) => void): Promise<() => Promise<void>> {
    const ear = new Ear(() => this.#dial(), channel, hear);
    await ear.listen();
    this.#ears.add(ear);
    return () => {
      this.#ears.delete(ear);
      ear.close();
      return Promise.resolve();
    };
  }

  async session(): Promise<Session> {
    const link = await this.#dial();
    this.#sessions.add(link);
    link.onEnd(() => this.#sessions.delete(link));
    return sessionBy(link);
  }

  close(): Promise<void> {
    for (const link of this.#sessions) link.end();
    for (const ear of this.#ears) ear.close();
    this.#ears.clear();
    this.#lane.end();
    return Promise.resolve();
  }
}

const isUnsent = (error: unknown): boolean => error instanceof NotSentError;

/**
 * The health of a client that was given. It is never closed: once it has stopped answering, commands go over
 * connections of our own, which are made with its settings.
 */
export class GivenHealth {
  readonly #health: ConnectionHealth;
  readonly #make: () => NodePort;
  /** The database that the client works on; null while that is not known. */
  #database: string | null = null;
  #asked = false;
  #standIn: NodePort | null = null;

  /** `dial` duplicates the client. `onSilence`: earlier duplicates must be connected again. */
  constructor(dial: DialNode, keyPrefix: string, system: HealthSystem, onSilence: () => void) {
    this.#health = new ConnectionHealth(system);
    this.#make = () => {
      onSilence();
      return new NodePort((cancel) => this.#sameDatabase(dial, cancel), keyPrefix, system);
    };
  }

  /** What takes the place of the client, or null while it answers. */
  get standIn(): NodePort | null {
    if (this.#standIn === null && this.#database !== null && this.#health.isSilent)
      this.#standIn = this.#make();
    return this.#standIn;
  }

  /** Sends a command by the client itself. */
  watch(
    send: (words: readonly string[]) => Promise<Reply>,
    words: readonly string[],
    timeoutMs?: number,
  ): Promise<Reply> {
    const sent = this.#health.watch(timeoutMs, () => send(words));
    if (!this.#asked) {
      this.#asked = true;
      void databaseOf(send).then((database) => {
        this.#database = database;
      });
    }
    return sent;
  }

  async close(): Promise<void> {
    await this.#standIn?.close();
  }

  /** A client may have been told SELECT: locks in another database would exclude nobody. */
  async #sameDatabase(dial: DialNode, cancel: AbortSignal | undefined): Promise<Link> {
    const link = await dial(cancel);
    const database = await databaseOf((words) => link.send(words));
    if (database === this.#database) return link;
    link.end();
    throw new Error(
      `the connection of the given client does not answer, and its duplicate works on database ${database} ` +
        `instead of ${this.#database}: give redis() a URL`,
    );
  }
}

/** null where the server does not say: an old one, or a user who may not ask. */
async function databaseOf(send: (words: readonly string[]) => Promise<Reply>): Promise<string | null> {
  try {
    return / db=(\d+)/.exec(textOf(await send(["CLIENT", "INFO"])))?.[1] ?? null;
  } catch {
    return null;
  }
}
