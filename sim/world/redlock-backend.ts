// Several simulated Redis masters under the real quorum. Only a minority of them ever loses its data: that is what is promised to
// do no harm. Whether a restart keeps a node from voting for a while depends on what it says of its disk.

import type { Guarantees, Store } from "../../src/core/store.ts";
import { redlockGuarantees } from "../../src/stores/redlock/guarantees.ts";
import { Node } from "../../src/stores/redlock/node.ts";
import { RedlockOpenStore } from "../../src/stores/redlock/store.ts";
import { majorityOf } from "../../src/stores/redlock/quorum-call.ts";
import type { Fault, FaultKind } from "../settings.ts";
import { unpacked } from "../servers/lua/msgpack.ts";
import { Table, type Value } from "../servers/lua/values.ts";
import { type Backend, type BackendDeps, type Pushes, WORST_RATE } from "./backend.ts";
import type { SimProcess } from "./process.ts";
import { RedisHost } from "./redis-host.ts";
import { SimRedisPort } from "./redis-port.ts";

const NODE_TIMEOUT_MS = 1_000;
/** Leases are extended by so much at most, whatever their ttl. */
const LONGEST_EXTENSION_MS = 2_000;
const MARKER = "holdfast:node";
const [HELD, QUEUED] = ["hq2h", "hq2q"] as const;
/** Where in the record of a holder the end of its lease is. */
const [ENDS_FROM, ENDS_TO] = [40, 54] as const;

export class RedlockBackend implements Backend {
  readonly guarantees: Guarantees = redlockGuarantees;
  /** One per proposal, and a node that has to be greeted first. */
  readonly rounds = 5;
  readonly weaknesses: readonly FaultKind[] = ["server-clock"];
  readonly opens = true;
  readonly pushes: Pushes = { lost: false, lateMs: 0 };
  readonly #deps: BackendDeps;
  readonly #hosts: readonly RedisHost[];
  readonly #maxTtlMs: number;

  constructor(deps: BackendDeps) {
    this.#deps = deps;
    const { timeline, random, settings } = deps;
    this.#maxTtlMs = Math.max(LONGEST_EXTENSION_MS, settings.ttlMs);
    this.#hosts = Array.from({ length: settings.nodes ?? 3 }, (_none, at) => {
      const own = random.fork(`node ${at}`);
      const host = new RedisHost(`node${at}`, timeline, own, {
        rate: 1 + own.between(-WORST_RATE, WORST_RATE),
        wallOffsetMs: own.between(-2_000, 2_000),
        durable: own.chance(0.5),
      });
      this.#admit(host);
      return host;
    });
  }

  /** Where a majority was restarted it may take so long until one votes again: clients watch when they ask. */
  get quarantineMs(): number {
    return 1.2 * (this.#maxTtlMs + Math.max(50, this.#maxTtlMs / 10)) + 2_000;
  }

  /** As a node that clients have known for long. */
  #admit({ server }: RedisHost): void {
    const [, run = ""] = /run_id:(\w+)/.exec(String(server.run(["INFO"]))) ?? [];
    const durable = String(server.run(["CONFIG", "GET", "appendonly"])).endsWith("yes") ? "d" : "n";
    server.run(["SET", MARKER, `${run}+${durable}${this.#maxTtlMs} 0 r0 0 0`]);
  }

  store(process: SimProcess): Store {
    const { network, timeline } = this.#deps;
    const { pushes } = this;
    const port = (host: RedisHost): SimRedisPort => {
      if (host.down) throw new Error("connect ECONNREFUSED");
      return new SimRedisPort({ process, host, network, timeline, pushes });
    };
    return {
      name: "redlock",
      guarantees: this.guarantees,
      open: (env) => {
        const nodes = this.#hosts.map((host) => new Node(host.name, () => port(host), env.system));
        return RedlockOpenStore.open(nodes, env, {
          maxTtlMs: this.#maxTtlMs,
          nodeTimeoutMs: NODE_TIMEOUT_MS,
        });
      },
    };
  }

  struck(fault: Fault): readonly string[] {
    return this.#struck(fault).map(({ name }) => name);
  }

  freeze(fault: Fault): void {
    for (const host of this.#struck(fault)) host.freeze(fault.ms);
  }

  restart(fault: Fault, forget: boolean): void {
    const minority = this.#hosts.length - majorityOf(this.#hosts.length);
    const hosts = forget ? [this.#hosts[(fault.nodes ?? 1) % minority] as RedisHost] : this.#struck(fault);
    for (const host of hosts) host.restart(fault.ms / 5, forget);
  }

  jump(fault: Fault): void {
    for (const host of this.#struck(fault)) host.jump(fault.ms * 2);
  }

  thaw(): void {
    for (const host of this.#hosts) host.thaw();
  }

  leftovers(): string[] {
    return this.#hosts.flatMap((host) =>
      [...host.server.entries()].flatMap(([name, value]) =>
        left(value as string, host.nowMs()).map((what) => `${host.name}: ${name} ${what}`),
      ),
    );
  }

  /** A bit per node; none means the first. */
  #struck({ nodes = 1 }: Fault): RedisHost[] {
    const hosts = this.#hosts.filter((_host, at) => (nodes >> at) % 2 === 1);
    return hosts.length === 0 ? this.#hosts.slice(0, 1) : hosts;
  }
}

/** What is in a record that should not be there any more. */
function left(text: string, nowMs: number): string[] {
  const form = text.slice(0, HELD.length);
  if (form === HELD) return Number(text.slice(ENDS_FROM, ENDS_TO)) > nowMs ? ["is held"] : [];
  if (form !== QUEUED) return [];
  const record = unpacked(text.slice(QUEUED.length))[0] as Table;
  const row = record.get("row");
  const held = row instanceof Table && (row.get("ends") as number) > nowMs;
  const queue = record.get("queue");
  const waits = (waiter: Value): boolean =>
    waiter instanceof Table && (waiter.get("untilMs") as number) >= nowMs;
  const waiting = queue instanceof Table && queue.list.some(waits);
  return [...(held ? ["is held"] : []), ...(waiting ? ["is waited for"] : [])];
}
