// One connection to one server, from the greeting to its end. Requests are answered in their order; everything that was asked
// and not answered when the connection ends is rejected as unknown. It is never used again after its end, so no request
// can leave late: the session makes a new one.
//
// Liveness: after a time without a request a ping is sent. When something was asked and not one byte has come for the
// read timeout, the server is taken for hung and the connection ends. The last part of that time begins with a timer that
// has fired, so that a process which stood still itself reads what has arrived before it judges.

import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import type { System } from "../../../core/system.ts";
import { ConnectionLost, RequestTooLarge, ServerError } from "./errors.ts";
import { closeFrame, FRAME_HEAD, FrameCutter, LONGEST_REQUEST } from "./frames.ts";
import { type Greeting, readWelcome, type Welcome, writeGreeting } from "./greeting.ts";
import { JuteReader, JuteWriter, ProtocolError } from "./jute.ts";
import { type Op, ping } from "./ops.ts";

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface WatchEvent {
  readonly kind: "created" | "deleted" | "changed" | "children" | "other";
  readonly path: string;
}

export interface ConnectionWish {
  readonly address: Address;
  readonly tls: ConnectionOptions | null;
  readonly greeting: Greeting;
  /** How long connecting and greeting may take. */
  readonly connectMs: number;
  readonly system: System;
  readonly onEvent: (event: WatchEvent) => void;
  /** Is given the way to break off while there is no connection yet. */
  readonly onStart?: (stop: () => void) => void;
}

/** A server is asked for a sign of life after this share of the session timeout, and given up after that one. */
const PING_SHARE = 1 / 8;
const READ_SHARE = 1 / 4;
/** The longest read timeout: a half-open connection must not outlast it in a long session. */
const LONGEST_READ_MS = 3_000;
/** The share of the read timeout that passes after the first suspicion. */
const LAST_CHANCE = 1 / 4;
/** The numbers of what is not a request in line. */
export const Xid = { event: -1, ping: -2, auth: -4, setWatches: -8 } as const;
export type SpecialXid = (typeof Xid)["ping" | "auth" | "setWatches"];

const EVENTS: readonly WatchEvent["kind"][] = ["other", "created", "deleted", "changed", "children"];

interface Asked {
  readonly xid: number;
  readonly op: Op<unknown>;
  readonly sentAtMs: number;
  resolve(value: never): void;
  reject(error: Error): void;
}

export class Connection {
  readonly address: Address;
  readonly welcome: Welcome;
  /** The newest transaction that this connection has heard of. */
  lastZxid: bigint;
  /** Resolves when the connection has ended, with the reason. Never rejects. */
  readonly ended: Promise<Error>;
  readonly #socket: Socket;
  readonly #system: System;
  readonly #onEvent: (event: WatchEvent) => void;
  readonly #asked: Asked[] = [];
  /** What is answered outside of the order: pings, credentials, watches. */
  readonly #special = new Map<number, Asked[]>();
  readonly #end: (reason: Error) => void;
  #out: Buffer[] = [];
  #xid = 0;
  #sentAtMs: number;
  #heardAtMs: number;
  #suspected = false;
  #cancelTimer: () => void = () => {};
  #over: Error | null = null;

  private constructor(socket: Socket, wish: ConnectionWish, welcome: Welcome) {
    this.#socket = socket;
    this.address = wish.address;
    this.welcome = welcome;
    this.lastZxid = wish.greeting.lastZxid;
    this.#system = wish.system;
    this.#onEvent = wish.onEvent;
    this.#sentAtMs = this.#heardAtMs = this.#system.monoMs();
    let end: (reason: Error) => void = () => {};
    this.ended = new Promise((resolve) => {
      end = resolve;
    });
    this.#end = end;
  }

  /** Rejects when the server cannot be reached, is silent, or speaks another language. An expired session is a welcome too. */
  static open(wish: ConnectionWish): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const { address, tls, system } = wish;
      const socket = tls === null ? connectTcp(address) : connectTls({ ...tls, ...address });
      const cutter = new FrameCutter();
      let connection: Connection | null = null;
      const fail = (error: Error): void => {
        cancel();
        socket.destroy();
        if (connection === null) reject(error);
        else connection.destroy(error);
      };
      const cancel = system.after(
        wish.connectMs,
        () => fail(new ConnectionLost(`no answer within ${Math.round(wish.connectMs)} ms`)),
        "background",
      );
      wish.onStart?.(() => fail(new ConnectionLost("broken off")));
      socket.setNoDelay(true);
      // Core keeps the process alive during calls. What is held must not: a process that has nothing left to
      // do ends, and releases it.
      socket.unref();
      socket.once(tls === null ? "connect" : "secureConnect", () =>
        socket.write(writeGreeting(wish.greeting)),
      );
      socket.on("error", (error: Error) => fail(new ConnectionLost(error.message, { cause: error })));
      socket.on("close", () => fail(new ConnectionLost("the server hung up")));
      socket.on("data", (chunk: Buffer) => {
        try {
          for (const frame of cutter.take(chunk)) {
            if (connection === null) {
              connection = new Connection(socket, wish, readWelcome(frame));
              cancel();
              connection.#watchOver();
              resolve(connection);
            } else {
              connection.#hear(frame);
            }
          }
        } catch (error) {
          fail(error as Error);
        }
      });
    });
  }

  get open(): boolean {
    return this.#over === null;
  }

  send<T>(op: Op<T>, special?: SpecialXid): Promise<T> {
    if (this.#over !== null) return Promise.reject(new ConnectionLost(this.#over.message));
    this.#xid = this.#xid === 0x7fffffff ? 1 : this.#xid + 1;
    const xid = special ?? this.#xid;
    const frame = frameOf(xid, op);
    const bytes = frame.length - FRAME_HEAD;
    if (bytes > LONGEST_REQUEST) return Promise.reject(new RequestTooLarge(bytes));
    return new Promise<T>((resolve, reject) => {
      const asked = { xid, op, sentAtMs: this.#system.monoMs(), resolve, reject };
      if (special === undefined) this.#asked.push(asked);
      else this.#special.set(xid, [...(this.#special.get(xid) ?? []), asked]);
      this.#write(frame);
    });
  }

  destroy(reason: Error): void {
    if (this.#over !== null) return;
    this.#over = reason;
    this.#cancelTimer();
    this.#socket.destroy();
    const lost = new ConnectionLost(reason.message, { cause: reason });
    for (const asked of [...this.#special.values(), this.#asked].flat()) asked.reject(lost);
    this.#end(reason);
  }

  /** Requests of one turn of the event loop leave together. */
  #write(frame: Buffer): void {
    this.#sentAtMs = this.#system.monoMs();
    this.#out.push(frame);
    if (this.#out.length > 1) return;
    queueMicrotask(() => {
      const frames = this.#out;
      this.#out = [];
      if (this.#over === null)
        this.#socket.write(frames.length === 1 ? (frames[0] as Buffer) : Buffer.concat(frames));
    });
  }

  #hear(frame: Buffer): void {
    this.#heardAtMs = this.#system.monoMs();
    this.#suspected = false;
    const from = new JuteReader(frame);
    const [xid, zxid, code] = [from.int(), from.long(), from.int()];
    if (zxid > this.lastZxid) this.lastZxid = zxid;
    if (xid === Xid.event) return this.#event(from);
    const asked = xid < 0 ? this.#answered(xid) : this.#asked.shift();
    if (asked === undefined || asked.xid !== xid) {
      if (asked !== undefined) asked.reject(new ConnectionLost("answered out of order"));
      throw new ProtocolError(`an answer to request ${xid}, which was not the next`);
    }
    if (code !== 0) asked.reject(new ServerError(code));
    else asked.resolve(this.#read(asked, from) as never);
  }

  #read(asked: Asked, from: JuteReader): unknown {
    try {
      return asked.op.read(from);
    } catch (error) {
      asked.reject(new ConnectionLost((error as Error).message, { cause: error }));
      throw error;
    }
  }

  #answered(xid: number): Asked | undefined {
    return this.#special.get(xid)?.shift();
  }

  #event(from: JuteReader): void {
    const kind = EVENTS[from.int()] ?? "other";
    from.int();
    this.#onEvent({ kind, path: from.string() });
  }

  /** One timer: for the next ping, or for the end of the server's time to answer. */
  #watchOver(): void {
    const { timeoutMs } = this.welcome;
    if (timeoutMs <= 0 || this.#over !== null) return;
    const nowMs = this.#system.monoMs();
    const sinceMs = this.#waitingSinceMs();
    const readMs = Math.min(LONGEST_READ_MS, timeoutMs * READ_SHARE);
    if (sinceMs !== null && nowMs - sinceMs >= readMs * (1 - LAST_CHANCE)) {
      if (this.#suspected)
        return this.destroy(
          new ConnectionLost(`the server has said nothing for ${Math.round(nowMs - sinceMs)} ms`),
        );
      this.#suspected = true;
      return this.#again(readMs * LAST_CHANCE);
    }
    const pingMs = timeoutMs * PING_SHARE;
    if (nowMs - this.#sentAtMs >= pingMs) this.send(ping, Xid.ping).catch(() => {});
    const nextPingMs = this.#sentAtMs + pingMs - nowMs;
    const waitingMs = this.#waitingSinceMs();
    // A request that is sent meanwhile sets no timer of its own.
    const judgeMs = (waitingMs === null ? 0 : waitingMs - nowMs) + readMs * (1 - LAST_CHANCE);
    this.#again(Math.min(nextPingMs, judgeMs));
  }

  #again(ms: number): void {
    this.#cancelTimer();
    this.#cancelTimer = this.#system.after(Math.max(1, ms), () => this.#watchOver(), "background");
  }

  /** Since when an answer is due and nothing has been heard; null when nothing is due. */
  #waitingSinceMs(): number | null {
    const oldest = [this.#asked[0], this.#special.get(Xid.ping)?.[0]].flatMap(
      (asked) => asked?.sentAtMs ?? [],
    );
    if (oldest.length === 0) return null;
    return Math.max(this.#heardAtMs, Math.min(...oldest));
  }
}

function frameOf(xid: number, op: Op<unknown>): Buffer {
  const out = new JuteWriter(FRAME_HEAD).int(xid).int(op.type);
  op.write(out);
  return closeFrame(out.bytes);
}
