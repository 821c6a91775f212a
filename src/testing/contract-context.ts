// What a case at the level of the raw contract works with: opened stores, parties, fresh keys, and time.
// Where the store's clock is this machine's, time is virtual: bounds are exact and nothing is waited for.
// Elsewhere the same case waits in real time, and what it asserts holds however slow the machine is.

import assert from "node:assert/strict";
import type { Guarantees, LockInfo, OpenStore } from "../core/store.ts";
import type { System } from "../core/system.ts";
import { nodeSystem } from "../system/node.ts";
import type { Server, Subject } from "./case.ts";
import { makeIo, sleep } from "./io.ts";
import { Party, type Wish } from "./party.ts";
import { StallMeter } from "./stall-meter.ts";
import { VirtualSystem } from "./virtual-system.ts";

/** How finely `until` looks. */
const STEP_MS = 20;
/**
 * What a store may be late by: ten times what an idle machine needs. Virtual time needs none, but rounding.
 */
const REAL_SLACK_MS = 2_000;
const VIRTUAL_SLACK_MS = 2 * STEP_MS;

export class ContractContext {
  readonly guarantees: Guarantees;
  readonly namespace: string = `t-${nodeSystem.randomId().slice(0, 12)}`;
  /** Set where the case can move time by hand. */
  readonly virtual: VirtualSystem | null;
  readonly #subject: Subject;
  readonly #server: Server;
  readonly #system: System;
  readonly #opened = new Set<OpenStore>();
  readonly #meter: StallMeter | null;
  #keys = 0;

  constructor(subject: Subject, server: Server) {
    this.#subject = subject;
    this.#server = server;
    this.guarantees = subject.guarantees;
    this.virtual = this.guarantees.clock === "machine" ? new VirtualSystem({ seed: 7 }) : null;
    this.#system = this.virtual ?? nodeSystem;
    this.#meter = this.virtual === null ? new StallMeter() : null;
  }

  /** One more opened store, as another process would have it. */
  async open(namespace: string = this.namespace): Promise<OpenStore> {
    const description = await this.#subject.create();
    const store = await description.open({ namespace, system: this.#system, allow: [] });
    this.#opened.add(store);
    return store;
  }

  async close(store: OpenStore): Promise<void> {
    this.#opened.delete(store);
    await store.close();
  }

  key(name = "key"): string {
    this.#keys += 1;
    return `${name}-${this.#keys}`;
  }

  party(store: OpenStore, key: string | readonly string[], wish: Wish = {}): Party {
    const keys = typeof key === "string" ? [key] : key;
    return new Party(store, keys, nodeSystem.randomId(), wish, () => this.nowMs());
  }

  /** What may be added to a bound, with the time in which the machine stalled since the case began. */
  get slackMs(): number {
    return this.#meter === null ? VIRTUAL_SLACK_MS : REAL_SLACK_MS + this.#meter.stalledMs();
  }

  nowMs(): number {
    return this.#system.monoMs();
  }

  /**
   * The ttl of a lease that must outlive a few calls: short in virtual time, in real time enough for a busy
   * machine.
   */
  get shortTtlMs(): number {
    return this.virtual === null ? 2_000 : 300;
  }

  async pass(ms: number): Promise<void> {
    if (this.virtual !== null) await this.virtual.advance(ms);
    else await sleep(ms);
  }

  /** Passes time until `look` finds something. */
  async until<T>(what: string, withinMs: number, look: () => Promise<T | null>): Promise<T> {
    const sinceMs = this.nowMs();
    for (;;) {
      const found = await look();
      if (found !== null) return found;
      if (this.nowMs() > sinceMs + withinMs + this.slackMs)
        assert.fail(`${what} did not happen within ${Math.round(withinMs)} ms`);
      await this.pass(STEP_MS);
    }
  }

  /** Lets all of them beat, in this order, until one is granted. */
  first(parties: readonly Party[], withinMs: number): Promise<Party> {
    return this.until(
      `a grant to one of ${parties.map((one) => one.request.label).join(", ")}`,
      withinMs,
      async () => {
        for (const party of parties) if ("granted" in (await party.send())) return party;
        return null;
      },
    );
  }

  /** Keeps all of them beating for `ms` although none can be granted. */
  async beat(parties: readonly Party[], ms: number): Promise<void> {
    const endMs = this.nowMs() + ms;
    while (this.nowMs() < endMs) {
      for (const party of parties) await party.refused();
      await this.pass(Math.min(this.guarantees.pollMs, this.guarantees.claimMs / 4));
    }
  }

  /** Lets the grant of a silent party run out, as the store sees it. */
  async expire(party: Party): Promise<void> {
    const leftMs = party.endsAtMs() - this.nowMs() + party.request.graceMs;
    await this.pass(leftMs + 1);
    await this.until("the end of a lease that nobody renews", 0, async () =>
      (await party.owns()) ? null : true,
    );
  }

  async inspect(store: OpenStore, key: string): Promise<LockInfo | null> {
    return store.inspect(key, makeIo());
  }

  async list(store: OpenStore, prefix = "", limit = 1_000): Promise<LockInfo[]> {
    const found: LockInfo[] = [];
    for await (const info of store.list({ prefix, limit }, makeIo())) found.push(info);
    return found;
  }

  /** How many things the server keeps for this case, where the subject can tell. */
  async footprint(): Promise<number | null> {
    return (await this.#subject.footprint?.(this.namespace)) ?? null;
  }

  async restartServer(): Promise<void> {
    assert.ok(this.#server.restart, "a store with a server is tested with `server.restart`");
    await this.#server.restart();
  }

  async end(): Promise<void> {
    await Promise.all([...this.#opened].map((store) => store.close()));
  }
}
