// postgres.js as the slice of `pg` that the store needs (connections.ts). Each connection is an instance of
// postgres.js with one connection, made with the caller's options: only so can a connection be given up
// alone. The instance that was given is never used, because its transforms and types change results.
// https://github.com/porsager/postgres

import { EventEmitter } from "node:events";
import { connect, type Socket } from "node:net";
import { dirname } from "node:path";
import { UnsupportedError } from "../../../core/errors.ts";
import type { System } from "../../../core/system.ts";
import { isMissing } from "../../shared/missing-client.ts";
import type { PostgresJsLike } from "../options.ts";
import type { OwnClient, PgPool, PooledClient, Row } from "./connections.ts";

const MOST_CONNECTIONS = 6;
const CONNECT_MS = 2_000;
/** Longer than the longest interval between two heartbeats: a new session costs more than many of them. */
const IDLE_MS = 30_000;

interface Result extends ReadonlyArray<Row> {
  /** Of the session that answered. */
  readonly state: { readonly pid: number; readonly secret: number };
}

/** What is used of an instance. */
interface PostgresJs {
  unsafe(
    text: string,
    values: readonly (string | null)[],
    options: { readonly prepare: boolean },
  ): Promise<Result>;
}

export type PostgresJsModule = (options: object) => PostgresJs;

/** Parsed options of an instance. */
interface ParsedOptions {
  readonly host: readonly string[];
  readonly port: readonly number[];
  readonly path?: string | false;
  readonly connection?: object;
  readonly socket?: (options: object) => Socket | Promise<Socket>;
}

/** Users install the package beside this one. */
export async function loadPostgresJs(): Promise<PostgresJsModule> {
  const module = await import(/* webpackIgnore: true */ "postgres").catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    throw new UnsupportedError("postgres({ pool }) with postgres.js needs the package: npm i postgres", {
      cause: error,
    });
  });
  return module.default as unknown as PostgresJsModule;
}

type Query = { readonly name?: string; readonly text: string; readonly values?: readonly unknown[] };
type Settle = (error: Error | null | undefined, result: { readonly rows: Row[] }) => void;

/** One connection, from `connect` to its end. It is never opened again. */
class Client implements OwnClient {
  readonly #sql: PostgresJs;
  readonly #events = new EventEmitter();
  readonly #options: ParsedOptions;
  readonly #system: System;
  #socket: Socket | null = null;
  #state: Result["state"] | null = null;
  #hasEnded = false;
  readonly connection: OwnClient["connection"] = { stream: { destroy: () => this.#destroy() } };

  constructor(postgres: PostgresJsModule, options: ParsedOptions, system: System, settings: object) {
    this.#system = system;
    this.#options = options;
    const { application_name: name } = settings as { readonly application_name?: string };
    this.#sql = postgres({
      ...options,
      // A result is text, as the server sends it, and a value is text, as `encode` writes it.
      ...{ types: {}, parsers: {}, serializers: {}, fetch_types: false },
      transform: { undefined: undefined, column: {}, value: {}, row: {} },
      ...{ max: 1, idle_timeout: null, max_lifetime: null, connect_timeout: CONNECT_MS / 1_000 },
      ...{ debug: false, onnotice: () => {}, onparameter: undefined, target_session_attrs: null },
      ...{ host: options.host.slice(0, 1), port: options.port.slice(0, 1), no_subscribe: true },
      ...{ shared: { retries: 0, typeArrayMap: {} }, parameters: {} },
      connection: { ...options.connection, ...(name === undefined ? {} : { application_name: name }) },
      socket: () => this.#openSocket(),
      onclose: () => this.#end(),
      onnotify: (channel: string, payload: string) => this.#events.emit("notification", { channel, payload }),
    });
  }

  on(event: string, listener: (...args: never[]) => void): void {
    this.#events.on(event, listener as () => void);
  }

  off(event: string, listener: (...args: never[]) => void): void {
    this.#events.off(event, listener as () => void);
  }

  get isOpen(): boolean {
    return !this.#hasEnded;
  }

  get processID(): number | null {
    return this.#state?.pid ?? null;
  }

  get secretKey(): number | undefined {
    return this.#state?.secret;
  }

  get host(): string | undefined {
    const { path, host } = this.#options;
    return path ? dirname(path) : host[0];
  }

  get port(): number | undefined {
    return this.#options.port[0];
  }

  async connect(): Promise<void> {
    // What the server told at the start comes with the first result.
    const { state } = await this.#sql.unsafe("SELECT 1", [], { prepare: false });
    this.#state = { ...state };
    if (this.#hasEnded) throw new Error("Connection terminated");
  }

  query(query: Query): Promise<{ readonly rows: Row[] }>;
  query(query: Query, settle: Settle): void;
  query(query: Query, settle?: Settle): Promise<{ readonly rows: Row[] }> | void {
    const answer = this.#run(query);
    if (settle === undefined) return answer;
    answer.then(
      (result) => settle(null, result),
      (error: Error) => settle(error, { rows: [] }),
    );
  }

  end(): Promise<void> {
    this.#destroy();
    return Promise.resolve();
  }

  unref(): void {
    this.#socket?.unref();
  }

  async #run({ name, text, values = [] }: Query): Promise<{ readonly rows: Row[] }> {
    // postgres.js would connect again, to another session.
    if (this.#hasEnded) throw new Error("Connection terminated");
    const rows = await this.#sql.unsafe(text, values.map(encode), { prepare: name !== undefined });
    return { rows: rows as unknown as Row[] };
  }

  /** The first host that answers. The store refuses one that takes no writes by name. */
  async #openSocket(): Promise<Socket> {
    const { socket: open, path, host, port } = this.#options;
    if (open !== undefined) return this.#keep(await open(this.#options));
    if (path) return this.#keep(await connectTo({ path }, this.#system));
    let failure: unknown;
    for (const [at, name] of host.entries()) {
      try {
        const socket = await connectTo({ host: name, port: port[at] ?? port[0] ?? 0 }, this.#system);
        // Where postgres.js looks for the name in the certificate.
        return this.#keep(Object.assign(socket, { host: name, port: port[at] }));
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  #keep(socket: Socket): Socket {
    if (this.#hasEnded) socket.destroy();
    socket.unref?.();
    this.#socket = socket;
    return socket;
  }

  #destroy(): void {
    this.#end();
    this.#socket?.destroy();
  }

  #end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#events.emit("end");
  }
}

type Address = { readonly path: string } | { readonly host: string; readonly port: number };

function connectTo(address: Address, system: System): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(address);
    const timeout = new Error("the server did not answer in time");
    const cancel = system.after(CONNECT_MS, () => socket.destroy(timeout), "background");
    const fail = (error: Error): void => {
      cancel();
      reject(error);
    };
    socket.once("error", fail);
    socket.once("connect", () => {
      cancel();
      socket.off("error", fail);
      resolve(socket);
    });
  });
}

type Given = (error: Error | undefined, client: PooledClient | undefined) => void;

interface Waiting {
  readonly sinceMs: number;
  readonly given: Given;
}

/** A pool of our own, small, which keeps no process alive. */
export class PostgresJsPool implements PgPool {
  readonly options: object = {};
  readonly Client: PgPool["Client"];
  readonly #newClient: () => Client;
  readonly #system: System;
  readonly #open = new Set<Client>();
  readonly #idle: { readonly client: Client; readonly cancel: () => void }[] = [];
  readonly #queue: Waiting[] = [];
  #hasEnded = false;

  constructor(postgres: PostgresJsModule, instance: PostgresJsLike, system: System) {
    const options = instance.options as ParsedOptions;
    this.#system = system;
    this.#newClient = () => new Client(postgres, options, system, {});
    this.Client = class extends Client {
      constructor(settings: object) {
        super(postgres, options, system, settings);
      }
    };
  }

  on(): this {
    return this;
  }

  connect(given: Given): void {
    this.#queue.push({ sinceMs: this.#system.monoMs(), given });
    // Never within the call: a client that is released would be passed on within its release, and so on.
    queueMicrotask(() => this.#serve());
  }

  end(): Promise<void> {
    this.#hasEnded = true;
    for (const { cancel } of this.#idle) cancel();
    for (const client of this.#open) void client.end();
    this.#serve();
    return Promise.resolve();
  }

  #serve(): void {
    this.#rejectOverdue();
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      const idle = this.#idle.pop();
      if (idle === undefined && this.#open.size >= MOST_CONNECTIONS) return;
      this.#queue.shift();
      idle?.cancel();
      if (idle?.client.isOpen === true) next.given(undefined, this.#lend(idle.client));
      else void this.#connectFor(next.given);
    }
  }

  /** Their callers have gone, and nothing is sent for them. */
  #rejectOverdue(): void {
    const beforeMs = this.#system.monoMs() - CONNECT_MS;
    for (let [first] = this.#queue; first !== undefined; [first] = this.#queue) {
      if (!this.#hasEnded && first.sinceMs > beforeMs) return;
      this.#queue.shift();
      first.given(new Error("no connection was free in time"), undefined);
    }
  }

  async #connectFor(given: Given): Promise<void> {
    const client = this.#newClient();
    this.#open.add(client);
    client.on("end", () => this.#open.delete(client));
    try {
      await client.connect();
    } catch (error) {
      void client.end();
      given(error as Error, undefined);
      return this.#serve();
    }
    given(undefined, this.#lend(client));
  }

  #lend(client: Client): PooledClient {
    let isLent = true;
    const release = (isBroken = false): void => {
      if (!isLent) return;
      isLent = false;
      if (isBroken || this.#hasEnded || !client.isOpen) void client.end();
      else {
        const cancel = this.#system.after(IDLE_MS, () => void client.end(), "background");
        this.#idle.push({ client, cancel });
      }
      queueMicrotask(() => this.#serve());
    };
    return Object.assign(client, { release });
  }
}

/** As `pg` writes values: text, whose type the server infers. */
function encode(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString("hex")}`;
  if (!Array.isArray(value)) return String(value as string | number | bigint | boolean);
  const items = value.map((item: unknown) => {
    const text = encode(item);
    if (text === null || Array.isArray(item)) return text ?? "NULL";
    return `"${text.replaceAll(/[\\"]/g, String.raw`\$&`)}"`;
  });
  return `{${items.join(",")}}`;
}
