// The lease of a re-entry into leases that its actor already holds. It has their fences and their end.
// The keys are released with the last handle, which may be the re-entry or the outer lease.

import { onAbort } from "../util/abort-listener.ts";
import type { Actor } from "./actor.ts";
import type { Lease } from "../api.ts";
import { showCallers } from "../util/caller-frame.ts";
import type { Duration } from "../duration.ts";
import { InvalidArgumentError, type LockLostError } from "../errors.ts";
import { showKey } from "../key.ts";
import type { HeldLease } from "./lease.ts";
import type { Mode } from "../store.ts";
import { printedAsJson } from "../util/inspect.ts";

export class JoinedLease implements Lease {
  readonly keys: readonly string[];
  readonly label: string;
  readonly actor: Actor;
  readonly sections: readonly HeldLease[];
  #signal: AbortSignal | null = null;
  #release: Promise<boolean> | null = null;

  constructor(sections: readonly HeldLease[], keys: readonly string[], label: string, actor: Actor) {
    this.sections = sections;
    this.keys = keys;
    this.label = label;
    this.actor = actor;
    for (const section of sections) section.join();
    actor.add(this);
  }

  get key(): string {
    return this.keys[0] as string;
  }

  /** The mode of the outer lease: a reader inside its own writer is still exclusive. */
  get mode(): Mode {
    return this.#first.mode;
  }

  get fence(): bigint {
    if (this.keys.length === 1) return this.fenceOf(this.key);
    throw new InvalidArgumentError(
      `fence must be read with fenceOf(key), because this lease has ${this.keys.length} keys`,
      { key: this.key },
    );
  }

  fenceOf(key: string): bigint {
    const section = this.keys.includes(key) ? this.sections.find((one) => one.keys.includes(key)) : undefined;
    if (section !== undefined) return section.fenceOf(key);
    throw new InvalidArgumentError(
      `key must be one of ${this.keys.map(showKey).join(", ")}, got ${showKey(String(key))}`,
      { key: this.key },
    );
  }

  get held(): boolean {
    return this.remaining > 0;
  }

  get remaining(): number {
    if (this.#release !== null) return 0;
    return Math.min(...this.sections.map((section) => section.leftMs));
  }

  get signal(): AbortSignal {
    this.#signal ??= this.sections.length === 1 ? this.#first.signal : anyOf(this.sections);
    return this.#signal;
  }

  get lost(): LockLostError | null {
    return this.sections.find((section) => section.lost !== null)?.lost ?? null;
  }

  assertHeld(): void {
    if (!this.held) throw this.lost ?? this.#first.overError();
  }

  async verify(): Promise<boolean> {
    if (this.#release !== null) return false;
    const owned = await Promise.all(this.sections.map((section) => section.owner.verify(section)));
    return owned.every(Boolean);
  }

  async extend(ttl?: Duration): Promise<void> {
    this.assertHeld();
    await Promise.all(this.sections.map((section) => section.owner.extend(section, ttl)));
  }

  release(): Promise<boolean> {
    this.#release ??= this.#leave();
    return this.#release;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => {});
  }

  toJSON(): Record<string, unknown> {
    const fences = Object.fromEntries(this.keys.map((key) => [key, String(this.fenceOf(key))]));
    return {
      ...this.#first.toJSON(),
      key: this.key,
      keys: this.keys,
      label: this.label,
      ...(this.keys.length === 1 ? { fence: fences[this.key] } : { fences }),
      held: this.held,
      remaining: Math.floor(this.remaining),
    };
  }

  async #leave(): Promise<boolean> {
    this.actor.delete(this);
    const left = await Promise.all(this.sections.map((section) => section.leave()));
    return left.every(Boolean);
  }

  get #first(): HeldLease {
    return this.sections[0] as HeldLease;
  }
}

/** A signal that aborts with the first of these leases. Its listeners end with the leases. */
function anyOf(sections: readonly HeldLease[]): AbortSignal {
  const controller = new AbortController();
  for (const { signal } of sections) {
    if (signal.aborted) controller.abort(signal.reason);
    else onAbort(signal, () => controller.abort(signal.reason));
  }
  return controller.signal;
}

printedAsJson(JoinedLease);
showCallers(JoinedLease.prototype, "extend", "verify", "release");
