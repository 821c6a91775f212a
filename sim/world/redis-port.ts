// The slice of a Redis client that the stores need, over simulated links: a command is a message, a reply is a message, a push is a
// message. Whatever the network swallows is never heard of again; where the server goes, its connections end and say so.

import { fromBytes, replyOf, toBytes } from "../servers/bytes.ts";
import type { RedisReply } from "../servers/redis.ts";
import type { CallContext, RedisPort, Reply } from "../../src/stores/redis/client/port.ts";
import type { Pushes } from "./backend.ts";
import type { Network } from "./network.ts";
import type { SimProcess } from "./process.ts";
import type { Peer, RedisHost } from "./redis-host.ts";
import type { Timeline } from "./timeline.ts";

/** A client says again that it listens, until it is told that it does. */
const AGAIN_MS = 150;

export interface PortDeps {
  readonly process: SimProcess;
  readonly host: RedisHost;
  readonly network: Network;
  readonly timeline: Timeline;
  readonly pushes: Pushes;
  /** A connection delivers a command once or never; without this the network may deliver it twice. */
  readonly once?: boolean;
}

export class SimRedisPort implements RedisPort, Peer {
  readonly keyPrefix = "";
  readonly #deps: PortDeps;
  readonly #pending = new Set<(error: Error) => void>();
  readonly #hears = new Map<string, (message: string) => void>();
  readonly #disconnect: () => void;
  #closed = false;

  constructor(deps: PortDeps) {
    this.#deps = deps;
    this.#disconnect = deps.host.connect(this);
  }

  send(words: readonly string[], _call: CallContext): Promise<Reply> {
    if (this.#closed) return Promise.reject(new Error("the client is closed"));
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        this.#pending.delete(fail);
        reject(error);
      };
      this.#pending.add(fail);
      this.#ask(words, (reply) => {
        if (!this.#pending.delete(fail)) return;
        if (reply instanceof Error) reject(reply);
        else resolve(replyOf(reply));
      });
    });
  }

  async subscribe(channel: string, hear: (message: string) => void): Promise<() => Promise<void>> {
    this.#hears.set(channel, hear);
    await new Promise<void>((resolve) => this.#listen(channel, resolve));
    return () => {
      this.#hears.delete(channel);
      return Promise.resolve();
    };
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#hears.clear();
    this.#disconnect();
    this.#fail("the client is closed");
    return Promise.resolve();
  }

  heard(channel: string, message: string): void {
    const { process, host, network, pushes } = this.#deps;
    if (pushes.lost) return;
    const deliver = (): void => this.#hears.get(channel)?.(fromBytes(message));
    network.send(host.name, process.processLabel, () => process.happens(deliver), pushes.lateMs);
  }

  /** Told by the system below, so no message is needed; the client connects again by itself. */
  reset(): void {
    this.#deps.process.happens(() => this.#fail("read ECONNRESET"));
    for (const channel of this.#hears.keys()) this.#listen(channel, () => {});
  }

  #fail(why: string): void {
    for (const fail of [...this.#pending]) fail(new Error(why));
  }

  #listen(channel: string, done: () => void): void {
    const { timeline, process } = this.#deps;
    if (!this.#hears.has(channel) || process.state === "dead") return;
    const again = timeline.after(AGAIN_MS + (timeline.now % 1), () => this.#listen(channel, done));
    this.#ask(["SUBSCRIBE", channel], (reply) => {
      if (reply instanceof Error) return;
      again();
      done();
    });
  }

  /** To the server and back. Each copy of a message that the network makes is a message of its own. */
  #ask(words: readonly string[], heard: (reply: RedisReply | Error) => void): void {
    const { process, host, network } = this.#deps;
    const me = process.processLabel;
    const raw = words.map(toBytes);
    let arrived = false;
    network.send(me, host.name, () => {
      if (arrived && this.#deps.once === true) return;
      arrived = true;
      host.arrives(this, raw, (reply) =>
        network.send(host.name, me, () => process.happens(() => heard(reply))),
      );
    });
  }
}
