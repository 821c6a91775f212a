// A session over its connections. It goes from server to server until one answers, says who it is, sets its watches again,
// and tells apart what must be told apart: a connection that is lost says nothing about the session; only a server can say
// that it has expired, and then a new one is begun.

import type { ConnectionOptions } from "node:tls";
import type { System } from "../../../core/system.ts";
import { type Address, Connection, type WatchEvent, Xid } from "./connection.ts";
import { ConnectionLost } from "./errors.ts";
import { splitByBytes } from "./frames.ts";
import { type Credentials, NO_SESSION } from "./greeting.ts";
import { auth, close, type Op, setWatches } from "./ops.ts";

export interface SessionWish {
  readonly servers: readonly Address[];
  readonly timeoutMs: number;
  readonly tls: ConnectionOptions | null;
  /** `user:password`, or null. */
  readonly digest: string | null;
  readonly system: System;
}

export interface SessionListener {
  /** A new session has begun: the first, or one after an expiry. */
  begun(): void;
  /** The session is gone, and with it everything that it held. */
  expired(): void;
  event(event: WatchEvent): void;
}

/** What a caller sends on: one connection of one session. Useless after either has ended. */
export interface Link {
  readonly sessionId: bigint;
  readonly address: Address;
  send<T>(op: Op<T>): Promise<T>;
  /** Ends this connection; the session goes on at the next server. */
  leave(why: ConnectionLost): void;
}

/**
 * How long a server may take to be reached in the first round, as a share of the session timeout, and bounds for it. One
 * that is frozen still takes connections, so the first round is short; each further one gives twice the time.
 */
const CONNECT_SHARE = 1 / 20;
const [SHORTEST_CONNECT_MS, LONGEST_CONNECT_MS] = [200, 2_000];
/** Whoever opens is told after one round: it is a patient one. */
const OPENING_CONNECT_MS = 1_500;
/** Between two rounds over all servers. */
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [20, 250];
/** A connection that ends earlier counts as a failed try: the next one follows after a pause. */
const SHORTEST_CONNECTION_MS = 1_000;
/** So many bytes of paths in one packet, as in ZooKeeper's own client. */
const WATCHES_BYTES = 128 * 1_024;
const CLOSE_MS = 1_000;

export class Session {
  /** As the server has it; what was asked for until it is known. */
  timeoutMs: number;
  readonly #wish: SessionWish;
  readonly #listener: SessionListener;
  readonly #servers: readonly Address[];
  #credentials: Credentials = NO_SESSION;
  #lastZxid = 0n;
  #link: (Link & { readonly connection: Connection }) | null = null;
  readonly #waiting = new Set<{ resolve(link: Link): void; reject(error: Error): void }>();
  readonly #watches = { data: new Set<string>(), child: new Set<string>() };
  #closed = false;
  #failure: Error | null = null;
  #resume: () => void = () => {};
  #breakOff: () => void = () => {};
  #begun = false;
  readonly #ended: Promise<void>;

  constructor(wish: SessionWish, listener: SessionListener) {
    this.#wish = wish;
    this.#listener = listener;
    this.timeoutMs = wish.timeoutMs;
    this.#servers = shuffled(wish.servers, wish.system);
    this.#ended = this.#run();
  }

  /** The connection as it is, or null while there is none. */
  get link(): Link | null {
    return this.#link;
  }

  get id(): bigint {
    return this.#credentials.id;
  }

  /** Waits for a connection for as long as `signal` does. */
  ready(signal: AbortSignal): Promise<Link> {
    if (this.#link !== null) return Promise.resolve(this.#link);
    if (this.#closed) return Promise.reject(new ConnectionLost("the session is closed"));
    return new Promise((resolve, reject) => {
      const give = (): void => {
        this.#waiting.delete(waiter);
        signal.removeEventListener("abort", stop);
      };
      const stop = (): void => {
        give();
        reject(new ConnectionLost(`not connected: ${this.#failure?.message ?? "connecting"}`));
      };
      const waiter = {
        resolve: (link: Link): void => (give(), resolve(link)),
        reject: (error: Error): void => (give(), reject(error)),
      };
      this.#waiting.add(waiter);
      signal.addEventListener("abort", stop);
      if (signal.aborted) stop();
    });
  }

  /** Rejects when every server was tried once and none took us. */
  async opened(): Promise<void> {
    await this.ready(new AbortController().signal);
  }

  /** The next event of this kind is told, over reconnections too, until it has come once. */
  watch(kind: "data" | "child", path: string): void {
    this.#watches[kind].add(path);
  }

  unwatch(kind: "data" | "child", path: string): void {
    this.#watches[kind].delete(path);
  }

  /** Ends the session at the server, if it can be told. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#resume();
    if (this.#link === null) this.#breakOff();
    const link = this.#link;
    if (link !== null) {
      const over = (): void => link.connection.destroy(new ConnectionLost("the session is closed"));
      const cancel = this.#wish.system.after(CLOSE_MS, over);
      await link.connection.send(close).catch(() => {});
      cancel();
      over();
    }
    for (const waiter of [...this.#waiting]) waiter.reject(new ConnectionLost("the session is closed"));
    await this.#ended;
  }

  async #run(): Promise<void> {
    let [tried, pauseMs] = [0, FIRST_PAUSE_MS];
    for (let next = 0; !this.#closed; next += 1) {
      const address = this.#servers[next % this.#servers.length] as Address;
      const connection = await this.#connect(address, Math.floor(tried / this.#servers.length));
      if (connection === "expired") continue;
      if (connection !== null && !this.#closed) {
        tried = 0;
        const startMs = this.#wish.system.monoMs();
        const reason = await connection.ended;
        this.#lost(connection, reason);
        if (this.#wish.system.monoMs() - startMs >= SHORTEST_CONNECTION_MS) pauseMs = FIRST_PAUSE_MS;
        else pauseMs = await this.#backOff(pauseMs);
        continue;
      }
      connection?.destroy(new ConnectionLost("the session is closed"));
      tried += 1;
      if (tried % this.#servers.length > 0 || this.#closed) continue;
      if (tried === this.#servers.length && !this.#begun) this.#refuse();
      pauseMs = await this.#backOff(pauseMs);
    }
  }

  /** Returns the next pause. */
  async #backOff(pauseMs: number): Promise<number> {
    if (!this.#closed) await this.#pause(pauseMs * (0.5 + this.#wish.system.random() / 2));
    return Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
  }

  /** Nobody has ever answered: whoever waits to begin is told. */
  #refuse(): void {
    for (const waiter of [...this.#waiting])
      waiter.reject(this.#failure ?? new ConnectionLost("no server answered"));
  }

  async #connect(address: Address, round: number): Promise<Connection | "expired" | null> {
    const { tls, system } = this.#wish;
    const shareMs = Math.max(SHORTEST_CONNECT_MS, this.timeoutMs * CONNECT_SHARE);
    const shortMs = this.#begun ? shareMs : OPENING_CONNECT_MS;
    const connectMs = Math.min(LONGEST_CONNECT_MS, shortMs * 2 ** Math.min(round, 8));
    try {
      const greeting = { ...this.#credentials, timeoutMs: this.#wish.timeoutMs, lastZxid: this.#lastZxid };
      const onEvent = (event: WatchEvent): void => this.#heard(event);
      const onStart = (stop: () => void): void => {
        this.#breakOff = stop;
      };
      const connection = await Connection.open({
        address,
        tls,
        greeting,
        connectMs,
        system,
        onEvent,
        onStart,
      });
      if (connection.welcome.timeoutMs <= 0) {
        connection.destroy(new ConnectionLost("the session has expired"));
        this.#expire();
        return "expired";
      }
      await this.#begin(connection);
      return connection;
    } catch (error) {
      const { host, port } = address;
      this.#failure = new ConnectionLost(`${host}:${port}: ${(error as Error).message}`, { cause: error });
      return null;
    }
  }

  async #begin(connection: Connection): Promise<void> {
    const { welcome, address } = connection;
    const fresh = this.#credentials.id !== welcome.id;
    this.#credentials = { id: welcome.id, password: welcome.password };
    this.timeoutMs = welcome.timeoutMs;
    const { digest } = this.#wish;
    // Sent first, so that everything afterwards has their effect; only the credentials are waited for.
    const known = digest === null ? null : connection.send(auth("digest", Buffer.from(digest)), Xid.auth);
    this.#watchAgain(connection);
    try {
      await known;
    } catch (error) {
      connection.destroy(error as Error);
      throw error;
    }
    if (!connection.open) throw new ConnectionLost("the server hung up");
    const send = <T>(op: Op<T>): Promise<T> => connection.send(op);
    const leave = (why: ConnectionLost): void => this.#leave(connection, why);
    this.#link = { connection, sessionId: welcome.id, address, send, leave };
    this.#failure = null;
    this.#begun = true;
    if (fresh) this.#listener.begun();
    for (const waiter of [...this.#waiting]) waiter.resolve(this.#link);
  }

  #leave(connection: Connection, why: ConnectionLost): void {
    // At once: whoever asks for a link now gets the next one.
    if (this.#link?.connection === connection) this.#link = null;
    connection.destroy(why);
  }

  #watchAgain(connection: Connection): void {
    for (const kind of ["data", "child"] as const) {
      for (const paths of splitByBytes(this.#watches[kind], WATCHES_BYTES)) {
        if (paths.length === 0) continue;
        connection
          .send(setWatches(this.#lastZxid, { data: [], child: [], [kind]: paths }), Xid.setWatches)
          .catch((error: unknown) => connection.destroy(error as Error));
      }
    }
  }

  #heard(event: WatchEvent): void {
    if (event.path !== "") for (const paths of Object.values(this.#watches)) paths.delete(event.path);
    this.#listener.event(event);
  }

  #lost(connection: Connection, reason: Error): void {
    const { host, port } = connection.address;
    this.#link = null;
    this.#failure = new ConnectionLost(`${host}:${port}: ${reason.message}`, { cause: reason });
    if (connection.lastZxid > this.#lastZxid) this.#lastZxid = connection.lastZxid;
  }

  #expire(): void {
    this.#credentials = NO_SESSION;
    this.#watches.data.clear();
    this.#watches.child.clear();
    this.#listener.expired();
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#wish.system.after(ms, () => this.#resume(), "background");
      this.#resume = () => {
        cancel();
        this.#resume = () => {};
        resolve();
      };
    });
  }
}

/** Clients spread over the servers, each in an order of its own. */
function shuffled<T>(values: readonly T[], system: System): T[] {
  return values
    .map((value) => ({ value, at: system.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
