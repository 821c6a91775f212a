// One connection to one member of the cluster: calls, the stream of keep-alives and the stream of watches all go through it.
// Once it is dropped it takes no more calls; what is under way on it may still end by itself.

import type { Client, ClientDuplexStream, ClientUnaryCall, Metadata, ServiceError } from "@grpc/grpc-js";
import {
  leaseAnswer,
  type LeaseAnswer,
  leaseId,
  type LeaseId,
  watchAnswer,
  type WatchAnswer,
} from "./messages.ts";
import { type WatchRequest, watchRequest } from "./messages.ts";
import type { Patience, WatchStream } from "./port.ts";
import type { Codec, Loose } from "./wire.ts";

/** A connection of its own, no retries behind our back, pings no more often than a server allows by default. */
export const CHANNEL: Readonly<Record<string, number>> = {
  "grpc.use_local_subchannel_pool": 1,
  "grpc.enable_http_proxy": 0,
  "grpc.enable_retries": 0,
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 3_000,
  "grpc.max_receive_message_length": -1,
};

export interface Method<Q, A> {
  readonly path: string;
  readonly request: Codec<Q>;
  readonly answer: Codec<A>;
}

/** The caller stopped listening before an answer came: nobody knows what became of the call. */
export class GivenUp extends Error {}

interface Waiting {
  resolve(ttl: number): void;
  reject(error: unknown): void;
}

/** A call under way. */
interface Pending {
  readonly sentAtMs: number;
  giveUp(why: string): void;
}

export class Member {
  readonly endpoint: string;
  /** The term of the leader that this member last told of; 0 while it has told of none. */
  term = 0n;
  readonly #client: Client;
  readonly #nowMs: () => number;
  /** In the order in which they were sent. */
  readonly #pending = new Set<Pending>();
  #beats: ClientDuplexStream<Loose<LeaseId>, LeaseAnswer> | null = null;
  /** Who waits for the answer to a keep-alive, by lease; a stream answers in order. */
  #waiting = new Map<number, Waiting[]>();
  readonly #streams = new Set<{ cancel(): void }>();
  #dropped = false;

  constructor(endpoint: string, client: Client, nowMs: () => number) {
    this.endpoint = endpoint;
    this.#client = client;
    this.#nowMs = nowMs;
  }

  /** When the oldest call under way was sent; null when there is none. */
  get waitingSinceMs(): number | null {
    for (const { sentAtMs } of this.#pending) return sentAtMs;
    return null;
  }

  /** Nobody knows what became of the calls that were sent before: whoever waits for them is told. */
  giveUp(beforeMs: number, why: string): void {
    for (const one of [...this.#pending]) if (one.sentAtMs < beforeMs) one.giveUp(why);
  }

  get dropped(): boolean {
    return this.#dropped;
  }

  call<Q, A>(method: Method<Q, A>, request: Loose<Q>, metadata: Metadata, io: Patience): Promise<A> {
    const { path, answer } = method;
    return new Promise((resolve, reject) => {
      const { signal } = io;
      if (signal.aborted) return reject(new GivenUp("it was given up before it was sent"));
      let call: ClientUnaryCall | null = null;
      const over = this.#under(signal, (why) => {
        reject(new GivenUp(why));
        call?.cancel();
      });
      const done = (error: ServiceError | null, value?: A): void => {
        over();
        if (error === null) resolve(value as A);
        else reject(error);
      };
      const encode = (value: Loose<Q>): Buffer => method.request.encode(value);
      call = this.#client.makeUnaryRequest(
        path,
        encode,
        (bytes) => answer.decode(bytes),
        request,
        metadata,
        done,
      );
    });
  }

  keepAlive(id: number, metadata: () => Metadata, io: Patience): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.#dropped || io.signal.aborted)
        return reject(new GivenUp("it was given up before it was sent"));
      const beats = this.#beats ?? this.#openBeats(metadata());
      // It keeps its place in the list also when it is given up: the answers come in order.
      const waiting = this.#waiting.get(id) ?? [];
      this.#waiting.set(id, waiting);
      const over = this.#under(io.signal, (why) => reject(new GivenUp(why)));
      waiting.push({
        resolve(ttl) {
          over();
          resolve(ttl);
        },
        reject(error) {
          over();
          reject(error);
        },
      });
      beats.write({ id });
    });
  }

  /** One more call is under way, until it is given up or what is returned is called. */
  #under(signal: AbortSignal, giveUp: (why: string) => void): () => void {
    const over = (): void => {
      this.#pending.delete(pending);
      signal.removeEventListener("abort", aborted);
    };
    const pending: Pending = {
      sentAtMs: this.#nowMs(),
      giveUp(why) {
        over();
        giveUp(why);
      },
    };
    const aborted = (): void => pending.giveUp(`${this.endpoint} did not answer in time`);
    this.#pending.add(pending);
    signal.addEventListener("abort", aborted, { once: true });
    return over;
  }

  #openBeats(metadata: Metadata): ClientDuplexStream<Loose<LeaseId>, LeaseAnswer> {
    const stream = this.#client.makeBidiStreamRequest(
      "/etcdserverpb.Lease/LeaseKeepAlive",
      (value: Loose<LeaseId>) => leaseId.encode(value),
      (bytes) => leaseAnswer.decode(bytes),
      metadata,
    );
    this.#beats = stream;
    this.#streams.add(stream);
    stream.on("data", ({ id, ttl }: LeaseAnswer) => this.#waiting.get(id)?.shift()?.resolve(ttl));
    const over = (error: unknown): void => {
      if (this.#beats !== stream) return;
      this.#beats = null;
      this.#streams.delete(stream);
      const waiting = this.#waiting;
      this.#waiting = new Map();
      for (const one of [...waiting.values()].flat()) one.reject(error);
    };
    stream.on("error", over);
    stream.on("end", () => over(new Error("the stream of keep-alives has ended")));
    return stream;
  }

  watch(metadata: Metadata, hear: (answer: WatchAnswer) => void, ended: () => void): WatchStream {
    const stream = this.#client.makeBidiStreamRequest(
      "/etcdserverpb.Watch/Watch",
      (value: Loose<WatchRequest>) => watchRequest.encode(value),
      (bytes) => watchAnswer.decode(bytes),
      metadata,
    );
    this.#streams.add(stream);
    let open = true;
    const over = (): void => {
      if (!open) return;
      open = false;
      this.#streams.delete(stream);
      ended();
    };
    stream.on("data", (answer: WatchAnswer) => {
      if (open) hear(answer);
    });
    stream.on("error", over);
    stream.on("end", over);
    return {
      send: (request) => {
        if (open) stream.write(request);
      },
      close: () => {
        open = false;
        this.#streams.delete(stream);
        stream.cancel();
      },
    };
  }

  /** Nothing is held: the stream of keep-alives is not to keep the process alive. */
  rest(): void {
    if (this.#pending.size === 0) this.#beats?.cancel();
  }

  /** No more calls. Streams end now, and whoever waits on them is told. */
  drop(): void {
    if (this.#dropped) return;
    this.#dropped = true;
    for (const stream of [...this.#streams]) stream.cancel();
    this.#client.close();
  }
}
