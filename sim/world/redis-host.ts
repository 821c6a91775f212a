// One simulated Redis on a machine of its own: a clock that runs at its own rate, connections that are refused while it is down, and
// subscriptions that end with it. It can freeze, restart with or without its data, and have its clock set.

import { type RedisReply, RedisServer, ReplyError } from "../servers/redis.ts";
import type { Random } from "./random.ts";
import type { Timeline } from "./timeline.ts";

export interface HostSettings {
  readonly rate: number;
  readonly wallOffsetMs: number;
  readonly durable: boolean;
}

/** The other end of a connection. */
export interface Peer {
  heard(channel: string, message: string): void;
  /** The connection has ended. */
  reset(): void;
}

export type Answer = (reply: RedisReply | Error) => void;

export class RedisHost {
  readonly name: string;
  readonly rate: number;
  readonly server: RedisServer;
  readonly #timeline: Timeline;
  readonly #wallOffsetMs: number;
  readonly #peers = new Set<Peer>();
  readonly #channels = new Map<Peer, Set<string>>();
  /** Called after every step. */
  onStep: () => void = () => {};
  #jumpMs = 0;
  #frozen: (() => void)[] | null = null;
  #down = false;

  constructor(name: string, timeline: Timeline, random: Random, settings: HostSettings) {
    this.name = name;
    this.rate = settings.rate;
    this.#timeline = timeline;
    this.#wallOffsetMs = settings.wallOffsetMs;
    this.server = new RedisServer({
      wallUs: () => Math.floor(this.nowMs() * 1_000),
      runId: () => Array.from({ length: 40 }, () => Math.floor(random.next() * 16).toString(16)).join(""),
      publish: (channel, message) => this.#publish(channel, message),
      durable: settings.durable,
    });
  }

  nowMs(): number {
    return 1_700_000_000_000 + this.#timeline.now * this.rate + this.#wallOffsetMs + this.#jumpMs;
  }

  get down(): boolean {
    return this.#down;
  }

  /** A peer from which commands may come, until it goes. */
  connect(peer: Peer): () => void {
    this.#peers.add(peer);
    return () => {
      this.#peers.delete(peer);
      this.#channels.delete(peer);
    };
  }

  /** A command arrives. `answer` gets what goes back; what is frozen answers later, what is down refuses. */
  arrives(peer: Peer, words: readonly string[], answer: Answer): void {
    if (this.#down) return answer(new Error("connect ECONNREFUSED"));
    if (this.#frozen !== null) {
      this.#frozen.push(() => this.arrives(peer, words, answer));
      return;
    }
    if (words[0] === "SUBSCRIBE") return answer(this.#subscribe(peer, words[1] as string));
    let reply: RedisReply | Error;
    try {
      reply = this.server.run(words);
    } catch (error) {
      if (!(error instanceof ReplyError)) throw error;
      reply = error;
    }
    this.onStep();
    answer(reply);
  }

  freeze(ms: number): void {
    this.#frozen ??= [];
    this.#timeline.after(ms, () => this.thaw());
  }

  thaw(): void {
    const waiting = this.#frozen ?? [];
    this.#frozen = null;
    for (const fn of waiting) fn();
  }

  restart(ms: number, forget: boolean): void {
    if (this.#down) return;
    this.#down = true;
    this.#frozen = null;
    this.#channels.clear();
    for (const peer of this.#peers) peer.reset();
    this.#timeline.after(ms, () => {
      this.#down = false;
      this.server.start(forget);
      this.onStep();
    });
  }

  jump(ms: number): void {
    this.#jumpMs += ms;
  }

  #subscribe(peer: Peer, channel: string): RedisReply {
    const own = this.#channels.get(peer) ?? new Set();
    if (this.#peers.has(peer)) this.#channels.set(peer, own.add(channel));
    return ["subscribe", channel, own.size];
  }

  #publish(channel: string, message: string): number {
    const heard = [...this.#channels].filter(([, channels]) => channels.has(channel));
    for (const [peer] of heard) peer.heard(channel, message);
    return heard.length;
  }
}
