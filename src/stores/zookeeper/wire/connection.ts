// One connection to one server, from the handshake to its end. Requests are answered in order. When the
// connection ends, all unanswered requests are rejected, with an unknown outcome. It is never used again, so
// no request can leave late: the session opens another one.
//
// Liveness: after some time without a request, a ping is sent. If an answer is due and not one byte has come
// for the read timeout, the connection ends. The last part of that time starts in a timer, so that a process
// that was paused itself reads what has arrived before it decides.

import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import type { System } from "../../../core/system.ts";
import { ConnectionLost, RequestTooLarge, ServerError } from "./errors.ts";
import { closeFrame, FRAME_HEAD, FrameCutter, LONGEST_REQUEST } from "./frames.ts";
import {
  type ConnectReply,
  type ConnectRequest,
  readConnectReply,
  writeConnectRequest,
} from "./handshake.ts";
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

export interface ConnectionSpec {
  readonly address: Address;
  readonly tls: ConnectionOptions | null;
  readonly request: ConnectRequest;
  /** How long connecting and the handshake may take. */
  readonly connectMs: number;
  readonly system: System;
  readonly onEvent: (event: WatchEvent) => void;
  /** Receives a function that stops connecting. */
  readonly onStart?: (stop: () => void) => void;
}

/** Pings are sent after this share of the session timeout, and the read timeout is that one. */
const PING_SHARE = 1 / 8;
const READ_SHARE = 1 / 4;
/** The longest read timeout, for half-open connections in long sessions. */
const LONGEST_READ_MS = 3_000;
/** The last share of the read timeout, which starts in a timer. */
const LAST_SHARE = 1 / 4;
/** Numbers of messages that are not answered in order. */
export const Xid = { event: -1, ping: -2, auth: -4, setWatches: -8 } as const;
export type SpecialXid = (typeof Xid)["ping" | "auth" | "setWatches"];

const EVENTS: readonly WatchEvent["kind"][] = ["other", "created", "deleted", "changed", "children"];

interface Pending {
  readonly xid: number;
  readonly op: Op<unknown>;
  readonly sentAtMs: number;
  resolve(value: never): void;
  reject(error: Error): void;
}

export class Connection {
  readonly address: Address;
  readonly reply: ConnectReply;
  /** The newest transaction that this connection has seen. */
  lastZxid: bigint;
  /** Resolves when the connection has ended, with the reason. Never rejects. */
  readonly ended: Promise<Error>;
  readonly #socket: Socket;
  readonly #system: System;
  readonly #onEvent: (event: WatchEvent) => void;
  readonly #pending: Pending[] = [];
  /** Answered out of order: pings, credentials, watches. */
  readonly #special = new Map<number, Pending[]>();
  readonly #end: (reason: Error) => void;
  #out: Buffer[] = [];
  #xid = 0;
  #sentAtMs: number;
  #heardAtMs: number;
  #isSuspected = false;
  #cancelTimer: () => void = () => {};
  #endReason: Error | null = null;

  private constructor(socket: Socket, spec: ConnectionSpec, reply: ConnectReply) {
    this.#socket = socket;
    this.address = spec.address;
    this.reply = reply;
    this.lastZxid = spec.request.lastZxid;
    this.#system = spec.system;
    this.#onEvent = spec.onEvent;
    this.#sentAtMs = this.#heardAtMs = this.#system.monoMs();
    let end: (reason: Error) => void = () => {};
    this.ended = new Promise((resolve) => {
      end = resolve;
    });
    this.#end = end;
  }

  /**
   * Rejects if the server cannot be reached, is silent, or speaks another protocol. The session may be
   * expired.
   */
  static open(spec: ConnectionSpec): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const { address, tls, system } = spec;
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
        spec.connectMs,
        () => fail(new ConnectionLost(`no answer within ${Math.round(spec.connectMs)} ms`)),
        "background",
      );
      spec.onStart?.(() => fail(new ConnectionLost("cancelled")));
      socket.setNoDelay(true);
      // Core keeps the process alive during calls. A process that only holds locks may end, and releases
      // them.
      socket.unref();
      socket.once(tls === null ? "connect" : "secureConnect", () =>
        socket.write(writeConnectRequest(spec.request)),
      );
      socket.on("error", (error: Error) => fail(new ConnectionLost(error.message, { cause: error })));
      socket.on("close", () => fail(new ConnectionLost("the server hung up")));
      socket.on("data", (chunk: Buffer) => {
        try {
          for (const frame of cutter.take(chunk)) {
            if (connection === null) {
              connection = new Connection(socket, spec, readConnectReply(frame));
              cancel();
              connection.#keepAlive();
              resolve(connection);
            } else {
              connection.#receive(frame);
            }
          }
        } catch (error) {
          fail(error as Error);
        }
      });
    });
  }

  get isOpen(): boolean {
    return this.#endReason === null;
  }

  get sessionId(): bigint {
    return this.reply.id;
  }

  /**
   * Rejects with a ServerError if the server rejects it, and with a ConnectionLost if the outcome is unknown.
   */
  send<T>(op: Op<T>, special?: SpecialXid): Promise<T> {
    if (this.#endReason !== null) return Promise.reject(new ConnectionLost(this.#endReason.message));
    this.#xid = this.#xid === 0x7fffffff ? 1 : this.#xid + 1;
    const xid = special ?? this.#xid;
    const frame = frameOf(xid, op);
    const bytes = frame.length - FRAME_HEAD;
    if (bytes > LONGEST_REQUEST) return Promise.reject(new RequestTooLarge(bytes));
    return new Promise<T>((resolve, reject) => {
      const pending = { xid, op, sentAtMs: this.#system.monoMs(), resolve, reject };
      if (special === undefined) this.#pending.push(pending);
      else this.#special.set(xid, [...(this.#special.get(xid) ?? []), pending]);
      this.#write(frame);
    });
  }

  destroy(reason: Error): void {
    if (this.#endReason !== null) return;
    this.#endReason = reason;
    this.#cancelTimer();
    this.#socket.destroy();
    const lost = new ConnectionLost(reason.message, { cause: reason });
    for (const pending of [...this.#special.values(), this.#pending].flat()) pending.reject(lost);
    this.#end(reason);
  }

  /** Requests of one tick are sent together. */
  #write(frame: Buffer): void {
    this.#sentAtMs = this.#system.monoMs();
    this.#out.push(frame);
    if (this.#out.length > 1) return;
    queueMicrotask(() => {
      const frames = this.#out;
      this.#out = [];
      if (this.#endReason === null)
        this.#socket.write(frames.length === 1 ? (frames[0] as Buffer) : Buffer.concat(frames));
    });
  }

  #receive(frame: Buffer): void {
    this.#heardAtMs = this.#system.monoMs();
    this.#isSuspected = false;
    const from = new JuteReader(frame);
    const [xid, zxid, code] = [from.int(), from.long(), from.int()];
    if (zxid > this.lastZxid) this.lastZxid = zxid;
    if (xid === Xid.event) return this.#receiveEvent(from);
    const pending = xid < 0 ? this.#special.get(xid)?.shift() : this.#pending.shift();
    if (pending === undefined || pending.xid !== xid) {
      if (pending !== undefined) pending.reject(new ConnectionLost("answered out of order"));
      throw new ProtocolError(`an answer to request ${xid}, which was not the next`);
    }
    if (code !== 0) pending.reject(new ServerError(code));
    else pending.resolve(this.#decode(pending, from) as never);
  }

  #decode(pending: Pending, from: JuteReader): unknown {
    try {
      return pending.op.read(from);
    } catch (error) {
      pending.reject(new ConnectionLost((error as Error).message, { cause: error }));
      throw error;
    }
  }

  #receiveEvent(from: JuteReader): void {
    const kind = EVENTS[from.int()] ?? "other";
    from.int();
    this.#onEvent({ kind, path: from.string() });
  }

  /** One timer, for the next ping or the read timeout. */
  #keepAlive(): void {
    const { timeoutMs } = this.reply;
    if (timeoutMs <= 0 || this.#endReason !== null) return;
    const nowMs = this.#system.monoMs();
    const sinceMs = this.#unansweredSinceMs();
    const readMs = Math.min(LONGEST_READ_MS, timeoutMs * READ_SHARE);
    if (sinceMs !== null && nowMs - sinceMs >= readMs * (1 - LAST_SHARE)) {
      if (this.#isSuspected)
        return this.destroy(
          new ConnectionLost(`the server has said nothing for ${Math.round(nowMs - sinceMs)} ms`),
        );
      this.#isSuspected = true;
      return this.#setTimer(readMs * LAST_SHARE);
    }
    const pingMs = timeoutMs * PING_SHARE;
    if (nowMs - this.#sentAtMs >= pingMs) this.send(ping, Xid.ping).catch(() => {});
    const nextPingMs = this.#sentAtMs + pingMs - nowMs;
    const nextSinceMs = this.#unansweredSinceMs();
    // A request that is sent meanwhile sets no timer of its own.
    const checkMs = (nextSinceMs === null ? 0 : nextSinceMs - nowMs) + readMs * (1 - LAST_SHARE);
    this.#setTimer(Math.min(nextPingMs, checkMs));
  }

  #setTimer(ms: number): void {
    this.#cancelTimer();
    this.#cancelTimer = this.#system.after(Math.max(1, ms), () => this.#keepAlive(), "background");
  }

  /** Since when an answer is due and nothing was received; null if no answer is due. */
  #unansweredSinceMs(): number | null {
    const oldest = [this.#pending[0], this.#special.get(Xid.ping)?.[0]].flatMap(
      (pending) => pending?.sentAtMs ?? [],
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
