// A connection of our own, for stores that are made from a URL: RESP 2 over one socket, and nothing that a
// lock does not need. docs/appendix/decisions/0022-connections-of-our-own-to-redis.md has the figures.

import { connect, isIP, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { InvalidArgumentError } from "../../../core/errors.ts";
import { decode, type Login } from "../options.ts";
import { type Address, ClientConnection, type Connection } from "../topology/connection.ts";
import type { ConnectionSystem } from "../topology/node-connection.ts";
import type { Reply } from "./port.ts";
import { ReplyError, RespParser } from "./resp-parser.ts";

const CONNECT_MS = 2_000;
const KEEP_ALIVE_MS = 5_000;
const DEFAULT_PORT = 6_379;

/** Where to connect and as whom. */
export interface OwnSettings {
  readonly to: Address;
  readonly login: Login;
  readonly database: number;
  /** null: without TLS. */
  readonly tls: ConnectionOptions | null;
  readonly system: ConnectionSystem;
}

interface OpenCommand {
  resolve(reply: Reply): void;
  reject(error: Error): void;
}

export function connectOwn(settings: OwnSettings, cancel?: AbortSignal): Promise<Connection> {
  return new OwnConnection(settings).open(cancel);
}

/** Of `redis://user:password@host:port/db`. Its text is never shown: it may hold a password. */
export function settingsOfUrl(url: string, tls: ConnectionOptions, system: ConnectionSystem): OwnSettings {
  const { protocol, hostname, port, pathname, username, password } = new URL(url);
  const database = pathname.slice(1);
  if (!/^\d*$/.test(database))
    throw new InvalidArgumentError(
      "the database in the URL of a Redis must be a number, such as redis://host/1",
    );
  return {
    // The brackets of an IPv6 address belong to the URL.
    to: { host: hostname.replace(/^\[|\]$/g, "") || "localhost", port: Number(port || DEFAULT_PORT) },
    login: {
      ...(username === "" ? {} : { username: decode(username) }),
      ...(password === "" ? {} : { password: decode(password) }),
    },
    database: Number(database),
    tls: protocol === "rediss:" ? tls : null,
    system,
  };
}

class OwnConnection extends ClientConnection {
  readonly #settings: OwnSettings;
  #socket: Socket | null = null;
  /** Commands without a reply, from `#first` on. Replies come in the order of the commands. */
  #open: OpenCommand[] = [];
  #first = 0;
  #onMessage: ((message: string) => void) | null = null;

  constructor(settings: OwnSettings) {
    super();
    this.#settings = settings;
  }

  send(command: readonly string[]): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const socket = this.#socket;
      if (socket === null || this.hasEnded) return reject(new Error("Connection is closed."));
      this.#open.push({ resolve, reject });
      let [text, isAscii] = [`*${command.length}\r\n`, true];
      for (const word of command) {
        const bytes = Buffer.byteLength(word);
        isAscii &&= bytes === word.length;
        text += `$${bytes}\r\n${word}\r\n`;
      }
      socket.write(text, isAscii ? "latin1" : "utf8");
    });
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    this.#onMessage = onMessage;
    await this.send(["SUBSCRIBE", channel]);
  }

  protected async connectClient(): Promise<void> {
    await this.#connectSocket();
    const { login, database } = this.#settings;
    const { username, password } = login;
    const greetings: Promise<Reply>[] = [];
    if (password !== undefined)
      greetings.push(this.send(["AUTH", ...(username === undefined ? [] : [username]), password]));
    if (database !== 0) greetings.push(this.send(["SELECT", String(database)]));
    await Promise.all(greetings);
  }

  protected closeClient(): void {
    this.#socket?.destroy();
    const open = this.#open.slice(this.#first);
    [this.#open, this.#first] = [[], 0];
    for (const command of open) command.reject(new Error("Connection is closed."));
  }

  #connectSocket(): Promise<void> {
    const { to, tls, system } = this.#settings;
    const parser = new RespParser((reply) => this.#answer(reply));
    return new Promise((resolve, reject) => {
      const socket = tls === null ? connect({ ...to }) : connectTls({ ...serverName(to), ...tls, ...to });
      this.#socket = socket;
      const failed = (error: unknown): void => {
        stopWaiting();
        this.end(error);
        reject(error as Error);
      };
      socket.setNoDelay(true);
      socket.setKeepAlive(true, KEEP_ALIVE_MS);
      const giveUp = (): void => failed(new Error(`no connection within ${CONNECT_MS} ms`));
      const stopWaiting = system.after(CONNECT_MS, giveUp, "background");
      socket.once(tls === null ? "connect" : "secureConnect", () => {
        stopWaiting();
        // What must keep the process alive says so itself.
        socket.unref();
        resolve();
      });
      socket.on("error", failed);
      socket.on("close", () => failed(new Error("the server hung up")));
      socket.on("data", (chunk: Buffer) => {
        try {
          parser.push(chunk);
        } catch (error) {
          failed(error);
        }
      });
    });
  }

  #answer(reply: Reply | ReplyError): void {
    if (this.#onMessage !== null && Array.isArray(reply) && reply[0] === "message")
      return this.#onMessage(String(reply[2]));
    const command = this.#open[this.#first];
    if (command === undefined) throw new Error("the server answered what was not asked");
    this.#first += 1;
    if (this.#first === this.#open.length) {
      this.#open.length = 0;
      this.#first = 0;
    } else if (this.#first > 1_024 && this.#first * 2 > this.#open.length) {
      this.#open.splice(0, this.#first);
      this.#first = 0;
    }
    if (reply instanceof ReplyError) command.reject(reply);
    else command.resolve(reply);
  }
}

/** Hosts that serve many names choose the certificate by it. An address is no name. */
function serverName({ host }: Address): ConnectionOptions {
  return isIP(host) === 0 ? { servername: host } : {};
}
