// A MariaDB or a pair of them for a test file, opened stores on it, requests to give them, and sections that
// are watched.

import { expect } from "vitest";
import type { OpenStore } from "../../../src/core/store.ts";
import type { Lease, Locks } from "../../../src/index.ts";
import { mysql, type MysqlOptions } from "../../../src/stores/mysql/index.ts";
import type { SqlConnection } from "../../../src/stores/mysql/client/port.ts";
import { nodeSystem } from "../../../src/system/node.ts";

import { io } from "../../support/store-calls.ts";

export { answered, fenceOf, io, request, until } from "../../support/store-calls.ts";

export function openStore(options: MysqlOptions, namespace = "t"): Promise<OpenStore> {
  return mysql(options).open({ namespace, system: nodeSystem, allow: [] });
}

/** A connection whose statements go through `run`. */
export function relayed(one: SqlConnection, run: SqlConnection["run"]): SqlConnection {
  return {
    get alive() {
      return one.alive;
    },
    run,
    send(text, values, settle) {
      run(text, values).then(
        (answer) => settle(null, answer),
        (error: unknown) => settle(error, null),
      );
    },
    ping: () => one.ping(),
    onEnd: (listener) => one.onEnd(listener),
    destroy: () => one.destroy(),
    unref: () => one.unref(),
  };
}

export interface Section {
  readonly who: number;
  readonly fence: bigint;
  readonly startMs: number;
  /** The last moment at which it was seen to be held. */
  endMs: number;
}

/**
 * Tasks that take one key again and again, each section watched in every turn of the event loop while it is
 * held.
 */
export class Sections {
  readonly all: Section[] = [];
  readonly errors: string[] = [];
  #stopped = false;
  readonly #tasks: Promise<void>[] = [];

  start(locks: Locks, who: number, key: string, options: object): void {
    this.#tasks.push(this.#task(locks, who, key, options));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#tasks);
  }

  /** Grants since a moment. */
  since(ms: number): Section[] {
    return this.all.filter((one) => one.startMs > ms);
  }

  check(): void {
    const byStart = [...this.all].sort((a, b) => a.startMs - b.startMs);
    let [endMs, fence] = [0, 0n];
    for (const one of byStart) {
      expect(one.startMs, `${one.who} began while another held`).toBeGreaterThanOrEqual(endMs);
      expect(one.fence > fence, `fence ${one.fence} after ${fence}`).toBe(true);
      [endMs, fence] = [Math.max(endMs, one.endMs), one.fence];
    }
  }

  async #task(locks: Locks, who: number, key: string, options: object): Promise<void> {
    while (!this.#stopped) {
      try {
        await locks.using(key, options, (lease) => this.#section(lease, who));
      } catch (error) {
        this.errors.push((error as { code?: string }).code ?? String(error));
        await io.sleep(20);
      }
    }
  }

  async #section(lease: Lease, who: number): Promise<void> {
    const startMs = nodeSystem.monoMs();
    if (!lease.held) return;
    const section: Section = { who, fence: lease.fence, startMs, endMs: startMs };
    this.all.push(section);
    while (nodeSystem.monoMs() < startMs + 5) {
      const nowMs = nodeSystem.monoMs();
      if (!lease.held) return;
      section.endMs = nowMs;
      await io.sleep(0);
    }
  }
}
