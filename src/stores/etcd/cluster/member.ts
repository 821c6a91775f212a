// One connection to one member of the cluster, for calls, the keep-alive stream and the watch stream. A
// member that was dropped takes no more calls; calls that are under way may still end by themselves.

import type { Socket } from "node:net";
import type { ChannelCredentials, Client, ClientDuplexStream, Metadata, ServiceError } from "@grpc/grpc-js";
import {
  leaseAnswer,
  type LeaseAnswer,
  leaseId,
  type LeaseId,
  watchAnswer,
  type WatchAnswer,
  type WatchRequest,
  watchRequest,
} from "../protocol/messages.ts";
import type { System } from "../../../core/system.ts";
import type { Codec, Loose } from "../protocol/protobuf.ts";

/** A connection of its own, no hidden retries, pings no more often than a server allows by default. */
export const CHANNEL_OPTIONS: Readonly<Record<string, number>> = {
  "grpc.use_local_subchannel_pool": 1,
  "grpc.enable_http_proxy": 0,
  "grpc.enable_retries": 0,
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 3_000,
  "grpc.max_receive_message_length": -1,
};

/** The context of one call. */
export interface CallSignal {
  /** Aborts when the caller has stopped waiting. */
  readonly signal: AbortSignal;
}

export interface Method<Q, A> {
  readonly path: string;
  readonly request: Codec<Q>;
  readonly answer: Codec<A>;
}

/** One stream of watches. */
export interface WatchStream {
  send(request: Loose<WatchRequest>): void;
  close(): void;
}

/** The caller stopped waiting before an answer came. The outcome of the call is unknown. */
export class UnansweredCall extends Error {}

interface PendingKeepAlive {
  resolve(ttl: number): void;
  reject(error: unknown): void;
}

interface PendingCall {
  readonly sentAtMs: number;
  giveUp(reason: string): void;
  /** From now on an abort of its signal gives it up. */
  listen(): void;
}

/** Core makes the signal of a call when it is read first. Most calls are answered earlier and do without. */
const LISTEN_AFTER_MS = 25;

export class Member {
  readonly endpoint: string;
  /** The term of the leader that this member last reported; 0 if it has reported none. */
  term = 0n;
  readonly #client: Client;
  readonly #system: System;
  /** The channel belongs to the caller and stays open. */
  readonly #isShared: boolean;
  /** In the order in which they were sent. */
  readonly #pending = new Set<PendingCall>();
  /** A timer is set that will listen to the signals of all pending calls. */
  #willListen = false;
  #keepAlives: ClientDuplexStream<Loose<LeaseId>, LeaseAnswer> | null = null;
  /** By lease. The stream answers in order. */
  #pendingKeepAlives = new Map<number, PendingKeepAlive[]>();
  readonly #streams = new Set<{ cancel(): void }>();
  #isDropped = false;

  constructor(
    endpoint: string,
    client: Client,
    { system, isShared }: { readonly system: System; readonly isShared: boolean },
  ) {
    this.endpoint = endpoint;
    this.#client = client;
    this.#system = system;
    this.#isShared = isShared;
  }

  /** When the oldest pending call was sent; null if none is pending. */
  get pendingSinceMs(): number | null {
    for (const { sentAtMs } of this.#pending) return sentAtMs;
    return null;
  }

  /** Rejects all calls that were sent before. Their outcome is unknown. */
  giveUp(beforeMs: number, reason: string): void {
    for (const one of [...this.#pending]) if (one.sentAtMs < beforeMs) one.giveUp(reason);
  }

  get isDropped(): boolean {
    return this.#isDropped;
  }

  call<Q, A>(method: Method<Q, A>, request: Loose<Q>, metadata: Metadata, io: CallSignal): Promise<A> {
    return new Promise((resolve, reject) => {
      let end = (): void => {};
      // Throws if the owner of the channel has closed it. Never calls back before it returns.
      const call = this.#client.makeUnaryRequest(
        method.path,
        (value: Loose<Q>) => method.request.encode(value),
        (bytes) => method.answer.decode(bytes),
        request,
        metadata,
        (error: ServiceError | null, value?: A) => {
          end();
          if (error === null) resolve(value as A);
          else reject(error);
        },
      );
      end = this.#begin(io, (reason) => {
        reject(new UnansweredCall(reason));
        call.cancel();
      });
    });
  }

  /** Resolves with the new ttl of the lease in seconds; 0 if the lease does not exist. */
  keepAlive(id: number, metadata: () => Metadata, io: CallSignal): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.#isDropped) return reject(new UnansweredCall("the call was cancelled before it was sent"));
      const stream = this.#keepAlives ?? this.#openKeepAlives(metadata());
      // A cancelled call stays in the list, because answers come in order.
      const pending = this.#pendingKeepAlives.get(id) ?? [];
      this.#pendingKeepAlives.set(id, pending);
      const end = this.#begin(io, (reason) => reject(new UnansweredCall(reason)));
      pending.push({
        resolve(ttl) {
          end();
          resolve(ttl);
        },
        reject(error) {
          end();
          reject(error);
        },
      });
      stream.write({ id });
    });
  }

  /** A call is pending until it is given up or the returned function is called. */
  #begin(io: CallSignal, giveUp: (reason: string) => void): () => void {
    let signal: AbortSignal | null = null;
    const end = (): void => {
      this.#pending.delete(pending);
      signal?.removeEventListener("abort", aborted);
    };
    const pending: PendingCall = {
      sentAtMs: this.#system.monoMs(),
      giveUp(reason) {
        end();
        giveUp(reason);
      },
      listen() {
        if (signal !== null) return;
        signal = io.signal;
        if (signal.aborted) aborted();
        else signal.addEventListener("abort", aborted, { once: true });
      },
    };
    const aborted = (): void => pending.giveUp(`${this.endpoint} did not answer in time`);
    this.#pending.add(pending);
    this.#listenSoon();
    return end;
  }

  /** One timer for all pending calls. */
  #listenSoon(): void {
    if (this.#willListen) return;
    this.#willListen = true;
    const listenToAll = (): void => {
      this.#willListen = false;
      for (const one of [...this.#pending]) one.listen();
    };
    this.#system.after(LISTEN_AFTER_MS, listenToAll, "background");
  }

  #openKeepAlives(metadata: Metadata): ClientDuplexStream<Loose<LeaseId>, LeaseAnswer> {
    const stream = this.#client.makeBidiStreamRequest(
      "/etcdserverpb.Lease/LeaseKeepAlive",
      (value: Loose<LeaseId>) => leaseId.encode(value),
      (bytes) => leaseAnswer.decode(bytes),
      metadata,
    );
    this.#keepAlives = stream;
    this.#streams.add(stream);
    stream.on("data", ({ id, ttl }: LeaseAnswer) => this.#pendingKeepAlives.get(id)?.shift()?.resolve(ttl));
    const end = (error: unknown): void => {
      if (this.#keepAlives !== stream) return;
      this.#keepAlives = null;
      this.#streams.delete(stream);
      const pending = [...this.#pendingKeepAlives.values()].flat();
      this.#pendingKeepAlives = new Map();
      for (const one of pending) one.reject(error);
    };
    stream.on("error", end);
    stream.on("end", () => end(new Error("the keep-alive stream has ended")));
    return stream;
  }

  watch(metadata: Metadata, onAnswer: (answer: WatchAnswer) => void, onEnd: () => void): WatchStream {
    const stream = this.#client.makeBidiStreamRequest(
      "/etcdserverpb.Watch/Watch",
      (value: Loose<WatchRequest>) => watchRequest.encode(value),
      (bytes) => watchAnswer.decode(bytes),
      metadata,
    );
    this.#streams.add(stream);
    let isOpen = true;
    const end = (): void => {
      if (!isOpen) return;
      isOpen = false;
      this.#streams.delete(stream);
      onEnd();
    };
    stream.on("data", (answer: WatchAnswer) => {
      if (isOpen) onAnswer(answer);
    });
    stream.on("error", end);
    stream.on("end", end);
    return {
      send: (request) => {
        if (isOpen) stream.write(request);
      },
      close: () => {
        isOpen = false;
        this.#streams.delete(stream);
        stream.cancel();
      },
    };
  }

  /** Ends the keep-alive stream if no call is pending. */
  endIdleStreams(): void {
    if (this.#pending.size === 0) this.#keepAlives?.cancel();
  }

  /** Ends the streams, and rejects what waits on them. */
  drop(): void {
    if (this.#isDropped) return;
    this.#isDropped = true;
    for (const stream of [...this.#streams]) stream.cancel();
    if (!this.#isShared) this.#client.close();
  }
}

/** What gRPC calls when it connects, since 1.13. */
interface Connecting {
  readonly _createSecureConnector?: (this: Connecting, ...args: unknown[]) => Connector;
}

interface Connector {
  connect(...args: unknown[]): Promise<{ readonly socket: Socket }>;
}

/**
 * The same credentials, for connections that do not keep the process alive. gRPC keeps it alive while a
 * stream is open, and a holder always has streams. Core keeps it alive during calls, so a process that has
 * nothing left to do can end and release what it holds.
 */
export function unreferenced(credentials: ChannelCredentials): ChannelCredentials {
  const original = credentials as Connecting;
  const create = original._createSecureConnector;
  if (create === undefined) return credentials;
  return Object.create(credentials, {
    _createSecureConnector: {
      value: (...args: unknown[]): Connector => {
        const connector = create.apply(original, args);
        const connect = connector.connect.bind(connector);
        connector.connect = async (...to) => {
          const connected = await connect(...to);
          const { socket } = connected;
          socket.unref();
          // An HTTP/2 session refs its socket again with each stream.
          socket.ref = () => socket;
          return connected;
        };
        return connector;
      },
    },
  }) as ChannelCredentials;
}
