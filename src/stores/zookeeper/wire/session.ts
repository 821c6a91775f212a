// A session over its connections. It tries one server after another until one answers, authenticates, and
// restores its watches. A lost connection says nothing about the session: only a server can say that the
// session has expired, and then a new one starts.

import type { ConnectionOptions } from "node:tls";
import type { System } from "../../../core/system.ts";
import { type Address, Connection, type WatchEvent, Xid } from "./connection.ts";
import { ConnectionLost } from "./errors.ts";
import { splitByBytes } from "./frames.ts";
import { type Credentials, NO_SESSION } from "./handshake.ts";
import { auth, close, setWatches } from "./ops.ts";

export interface SessionSpec {
  readonly servers: readonly Address[];
  readonly timeoutMs: number;
  readonly tls: ConnectionOptions | null;
  /** `user:password`, or null. */
  readonly digest: string | null;
  readonly system: System;
}

export interface SessionListener {
  /** A new session has started: the first, or one after an expiry. */
  started(): void;
  /** The session is gone, and with it everything that it held. */
  expired(): void;
  event(event: WatchEvent): void;
}

/**
 * How long connecting to a server may take in the first round, as a share of the session timeout, and its
 * bounds. A frozen server still accepts connections, so the first round is short. Each further one doubles
 * it.
 */
const CONNECT_SHARE = 1 / 20;
const [SHORTEST_CONNECT_MS, LONGEST_CONNECT_MS] = [200, 2_000];
/** Opening fails after one round, so that round is longer. */
const OPENING_CONNECT_MS = 1_500;
/** Between two rounds over all servers. */
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [20, 500];
/** After a connection that ended earlier than this, the next one follows after a pause. */
const SHORTEST_CONNECTION_MS = 1_000;
/** Bytes of paths in one packet, as in ZooKeeper's own client. */
const WATCHES_BYTES = 128 * 1_024;
const CLOSE_MS = 1_000;

export class Session {
  /** As negotiated; the requested one until then. */
  timeoutMs: number;
  readonly #spec: SessionSpec;
  readonly #listener: SessionListener;
  readonly #servers: readonly Address[];
  #credentials: Credentials = NO_SESSION;
  #lastZxid = 0n;
  #connection: Connection | null = null;
  readonly #waiting = new Set<{ resolve(connection: Connection): void; reject(error: Error): void }>();
  readonly #watches = { data: new Set<string>(), child: new Set<string>() };
  #isClosed = false;
  #failure: Error | null = null;
  #resume: () => void = () => {};
  #stopConnecting: () => void = () => {};
  #hasStarted = false;
  readonly #ended: Promise<void>;

  constructor(spec: SessionSpec, listener: SessionListener) {
    this.#spec = spec;
    this.#listener = listener;
    this.timeoutMs = spec.timeoutMs;
    this.#servers = shuffled(spec.servers, spec.system);
    this.#ended = this.#run();
  }

  /** The current connection, or null while there is none. */
  get connection(): Connection | null {
    return this.#connection?.isOpen === true ? this.#connection : null;
  }

  /**
   * Waits for a connection until `signal` aborts. Rejects if no server answered the first round of opening.
   */
  ready(signal: AbortSignal): Promise<Connection> {
    const current = this.connection;
    if (current !== null) return Promise.resolve(current);
    if (this.#isClosed) return Promise.reject(new ConnectionLost("the session is closed"));
    return new Promise((resolve, reject) => {
      const end = (): void => {
        this.#waiting.delete(waiter);
        signal.removeEventListener("abort", stop);
      };
      const stop = (): void => {
        end();
        reject(new ConnectionLost(`not connected: ${this.#failure?.message ?? "connecting"}`));
      };
      const waiter = {
        resolve: (connection: Connection): void => (end(), resolve(connection)),
        reject: (error: Error): void => (end(), reject(error)),
      };
      this.#waiting.add(waiter);
      signal.addEventListener("abort", stop);
      if (signal.aborted) stop();
    });
  }

  /** Reports the next event of this kind, over reconnections too. */
  watch(kind: "data" | "child", path: string): void {
    this.#watches[kind].add(path);
  }

  unwatch(kind: "data" | "child", path: string): void {
    this.#watches[kind].delete(path);
  }

  /** Ends the session at the server, if there is a connection. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#resume();
    const { connection } = this;
    if (connection === null) this.#stopConnecting();
    else {
      const end = (): void => connection.destroy(new ConnectionLost("the session is closed"));
      const cancel = this.#spec.system.after(CLOSE_MS, end);
      await connection.send(close).catch(() => {});
      cancel();
      end();
    }
    for (const waiter of [...this.#waiting]) waiter.reject(new ConnectionLost("the session is closed"));
    await this.#ended;
  }

  async #run(): Promise<void> {
    let [tried, pauseMs] = [0, FIRST_PAUSE_MS];
    for (let next = 0; !this.#isClosed; next += 1) {
      const address = this.#servers[next % this.#servers.length] as Address;
      const connection = await this.#connect(address, Math.floor(tried / this.#servers.length));
      if (connection === "expired") continue;
      if (connection !== null && !this.#isClosed) {
        tried = 0;
        const startMs = this.#spec.system.monoMs();
        const reason = await connection.ended;
        this.#lost(connection, reason);
        if (this.#spec.system.monoMs() - startMs >= SHORTEST_CONNECTION_MS) pauseMs = FIRST_PAUSE_MS;
        else pauseMs = await this.#backOff(pauseMs);
        continue;
      }
      connection?.destroy(new ConnectionLost("the session is closed"));
      tried += 1;
      if (tried % this.#servers.length > 0 || this.#isClosed) continue;
      if (tried === this.#servers.length && !this.#hasStarted) this.#failOpening();
      pauseMs = await this.#backOff(pauseMs);
    }
  }

  /** Returns the next pause. */
  async #backOff(pauseMs: number): Promise<number> {
    if (!this.#isClosed) await this.#pause(pauseMs * (0.5 + this.#spec.system.random() / 2));
    return Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
  }

  /** No server has ever answered. */
  #failOpening(): void {
    for (const waiter of [...this.#waiting])
      waiter.reject(this.#failure ?? new ConnectionLost("no server answered"));
  }

  async #connect(address: Address, round: number): Promise<Connection | "expired" | null> {
    const { tls, system } = this.#spec;
    const shareMs = Math.max(SHORTEST_CONNECT_MS, this.timeoutMs * CONNECT_SHARE);
    const shortMs = this.#hasStarted ? shareMs : OPENING_CONNECT_MS;
    const connectMs = Math.min(LONGEST_CONNECT_MS, shortMs * 2 ** Math.min(round, 8));
    try {
      const connection = await Connection.open({
        address,
        tls,
        request: { ...this.#credentials, timeoutMs: this.#spec.timeoutMs, lastZxid: this.#lastZxid },
        connectMs,
        system,
        onEvent: (event) => this.#receive(event),
        onStart: (stop) => {
          this.#stopConnecting = stop;
        },
      });
      if (connection.reply.timeoutMs <= 0) {
        connection.destroy(new ConnectionLost("the session has expired"));
        this.#expire();
        return "expired";
      }
      await this.#start(connection);
      return connection;
    } catch (error) {
      const { host, port } = address;
      this.#failure = new ConnectionLost(`${host}:${port}: ${(error as Error).message}`, { cause: error });
      return null;
    }
  }

  async #start(connection: Connection): Promise<void> {
    const { id, password, timeoutMs } = connection.reply;
    const isNew = this.#credentials.id !== id;
    this.#credentials = { id, password };
    this.timeoutMs = timeoutMs;
    const { digest } = this.#spec;
    // Sent before everything else. Only the credentials are awaited.
    const login = digest === null ? null : connection.send(auth("digest", Buffer.from(digest)), Xid.auth);
    this.#restoreWatches(connection);
    try {
      await login;
    } catch (error) {
      connection.destroy(error as Error);
      throw error;
    }
    if (!connection.isOpen) throw new ConnectionLost("the server hung up");
    this.#connection = connection;
    this.#failure = null;
    this.#hasStarted = true;
    if (isNew) this.#listener.started();
    for (const waiter of [...this.#waiting]) waiter.resolve(connection);
  }

  #restoreWatches(connection: Connection): void {
    for (const kind of ["data", "child"] as const) {
      for (const paths of splitByBytes(this.#watches[kind], WATCHES_BYTES)) {
        if (paths.length === 0) continue;
        connection
          .send(setWatches(this.#lastZxid, { data: [], child: [], [kind]: paths }), Xid.setWatches)
          .catch((error: unknown) => connection.destroy(error as Error));
      }
    }
  }

  #receive(event: WatchEvent): void {
    if (event.path !== "") for (const paths of Object.values(this.#watches)) paths.delete(event.path);
    this.#listener.event(event);
  }

  #lost(connection: Connection, reason: Error): void {
    const { host, port } = connection.address;
    this.#connection = null;
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
      const cancel = this.#spec.system.after(ms, () => this.#resume(), "background");
      this.#resume = () => {
        cancel();
        this.#resume = () => {};
        resolve();
      };
    });
  }
}

/** Each client tries the servers in an order of its own, so that clients spread over them. */
function shuffled<T>(values: readonly T[], system: System): T[] {
  return values
    .map((value) => ({ value, at: system.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
