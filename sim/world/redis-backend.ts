// One simulated Redis behind the real redis store.

import type { Guarantees, Store } from "../../src/core/store.ts";
import { CLAIM_MS, redisGuarantees } from "../../src/stores/redis/guarantees.ts";
import { RedisKeys } from "../../src/stores/redis/commands/keys.ts";
import { RedisOpenStore } from "../../src/stores/redis/store.ts";
import type { KeyRecord } from "../../src/stores/shared/record.ts";
import { readRedisRecord } from "../servers/redis-records.ts";
import { type Fault, type FaultKind, FORGETFUL } from "../settings.ts";
import { type Backend, type BackendDeps, type Pushes, WORST_RATE } from "./backend.ts";
import { Observer } from "./observer.ts";
import type { SimProcess } from "./process.ts";
import { RedisHost } from "./redis-host.ts";
import { SimRedisPort } from "./redis-port.ts";

const names = new RedisKeys("holdfast");

export class RedisBackend implements Backend {
  readonly guarantees: Guarantees = redisGuarantees;
  /** The short script, and the long one where that cannot decide. */
  readonly rounds = 2;
  readonly weaknesses: readonly FaultKind[] = FORGETFUL;
  readonly quarantineMs = 0;
  readonly opens = true;
  readonly pushes: Pushes = { lost: false, lateMs: 0 };
  readonly #deps: BackendDeps;
  readonly #host: RedisHost;

  constructor(deps: BackendDeps) {
    this.#deps = deps;
    const { timeline, random, record } = deps;
    const rate = 1 + random.between(-WORST_RATE, WORST_RATE);
    this.#host = new RedisHost("server", timeline, random.fork("host"), {
      rate,
      wallOffsetMs: 0,
      durable: true,
    });
    const observer = new Observer(timeline, this.#host, CLAIM_MS, record);
    let seen = 0;
    this.#host.onStep = () => {
      if (this.#host.server.writes === seen) return;
      seen = this.#host.server.writes;
      observer.observe(this.#read());
    };
  }

  store(process: SimProcess): Store {
    const { network, timeline } = this.#deps;
    const { pushes } = this;
    const connect = (): SimRedisPort =>
      new SimRedisPort({ process, host: this.#host, network, timeline, pushes, once: true });
    return {
      name: "redis",
      guarantees: this.guarantees,
      open: (env) => RedisOpenStore.open(connect, env),
    };
  }

  struck(): readonly string[] {
    return [this.#host.name];
  }

  freeze({ ms }: Fault): void {
    this.#host.freeze(ms);
  }

  restart({ ms }: Fault, forget: boolean): void {
    this.#host.restart(ms / 5, forget);
  }

  jump({ ms }: Fault): void {
    this.#host.jump(ms * 2);
  }

  thaw(): void {
    this.#host.thaw();
  }

  leftovers(): string[] {
    const nowMs = this.#host.nowMs();
    return this.#read().flatMap(({ key, holders, line }) => [
      ...holders
        .filter(({ until }) => until > nowMs)
        .map((row) => `${key} is held by ${row.label} until ${row.until - nowMs} ms from now`),
      ...line.filter(({ seen }) => seen >= nowMs).map((row) => `${row.label} stands in the line of ${key}`),
    ]);
  }

  #read(): KeyRecord[] {
    const records: KeyRecord[] = [];
    for (const [name, value] of this.#host.server.entries()) {
      const key = names.key(name);
      if (key !== null && value instanceof Map) records.push(readRedisRecord(key, value));
    }
    return records;
  }
}
