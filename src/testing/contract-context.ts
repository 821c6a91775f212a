// The context of a case at the level `contract`: open stores, test clients, unused keys, and time. If the
// store uses the clock of this machine, time is virtual, bounds are exact and nothing really waits.
// Otherwise the same case waits in real time, and its assertions also hold on a slow machine.

import assert from "node:assert/strict";
import type { Guarantees, LockInfo, OpenStore } from "../core/store.ts";
import type { System } from "../core/system.ts";
import { nodeSystem } from "../system/node.ts";
import type { Server, Subject } from "./case.ts";
import { makeIo, sleep } from "./io.ts";
import { TestClient, type RequestOptions } from "./test-client.ts";
import { StallMeter } from "./stall-meter.ts";
import { VirtualSystem } from "./virtual-system.ts";

/** The step in which `until` checks. */
const STEP_MS = 20;
/**
 * The tolerance of a time bound: ten times what an idle machine needs. In virtual time it covers rounding
 * only.
 */
const REAL_SLACK_MS = 2_000;
const VIRTUAL_SLACK_MS = 2 * STEP_MS;

/** What a case at the level `contract` works with. */
export class ContractContext {
  readonly guarantees: Guarantees;
  readonly namespace: string = `t-${nodeSystem.randomId().slice(0, 12)}`;
  /** The virtual clock, or null in real time. */
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

  /** Opens a store, as another process does. */
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

  client(store: OpenStore, key: string | readonly string[], wish: RequestOptions = {}): TestClient {
    const keys = typeof key === "string" ? [key] : key;
    return new TestClient(store, keys, nodeSystem.randomId(), wish, () => this.nowMs());
  }

  /** The tolerance of a time bound, with the time for which the machine has stalled since the case began. */
  get slackMs(): number {
    return this.#meter === null ? VIRTUAL_SLACK_MS : REAL_SLACK_MS + this.#meter.stalledMs();
  }

  nowMs(): number {
    return this.#system.monoMs();
  }

  /**
   * The ttl of a lease that must outlive a few calls, also on a busy machine.
   */
  get shortTtlMs(): number {
    return this.virtual === null ? 2_000 : 300;
  }

  async pass(ms: number): Promise<void> {
    if (this.virtual !== null) await this.virtual.advance(ms);
    else await sleep(ms);
  }

  /** Lets time pass until `look` returns something other than null. */
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
  firstGranted(clients: readonly TestClient[], withinMs: number): Promise<TestClient> {
    return this.until(
      `a grant to one of ${clients.map((one) => one.request.label).join(", ")}`,
      withinMs,
      async () => {
        for (const client of clients) if ("granted" in (await client.send())) return client;
        return null;
      },
    );
  }

  /** Sends heartbeats of all clients for `ms`. None of them may be granted. */
  async heartbeat(clients: readonly TestClient[], ms: number): Promise<void> {
    const endMs = this.nowMs() + ms;
    while (this.nowMs() < endMs) {
      for (const client of clients) await client.expectBusy();
      await this.pass(Math.min(this.guarantees.pollMs, this.guarantees.claimMs / 4));
    }
  }

  /** Lets the grant of a silent client run out, as the store sees it. */
  async expire(client: TestClient): Promise<void> {
    const leftMs = client.endsAtMs() - this.nowMs() + client.request.graceMs;
    await this.pass(leftMs + 1);
    await this.until("the end of a lease that nobody renews", 0, async () =>
      (await client.owns()) ? null : true,
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

  /** How many records the server keeps for this case, or null if they cannot be counted. */
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
