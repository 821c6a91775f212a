// One step of the lease table: a statement or a procedure call, with the row names that it needs. A step that
// was the victim of a deadlock has changed nothing and is sent again.

import type { CallContext } from "../shared/retry-while-unsent.ts";
import type { Pool } from "./client/pool.ts";
import type { Answer, Value } from "./client/port.ts";
import { isDeadlock, isPrimaryMoved } from "./errors.ts";
import { hashOf } from "./names.ts";
import { sql, type StatementName } from "./sql.ts";

/** How often a step that met a deadlock, or another primary, is sent within one call. */
const MOST_TRIES = 5;
const FENCE_DIGITS = 20;
const LENGTH_DIGITS = 4;
/** The latest are remembered: a key that was acquired is released, too. */
const HASHES_REMEMBERED = 1_024;

/** What every step of an opened store knows. */
export interface StepContext {
  readonly pool: Pool;
  readonly namespace: string;
  /** This opened store, as the tables know it. */
  readonly store: string;
  readonly claimMs: number;
}

export class Steps {
  readonly context: StepContext;
  readonly namespace: Uint8Array;
  readonly #afterStep: () => void;
  readonly #hashes = new Map<string, Uint8Array>();

  constructor(context: StepContext, afterStep: () => void) {
    this.context = context;
    this.namespace = Buffer.from(context.namespace);
    this.#afterStep = afterStep;
  }

  hash(key: string): Uint8Array {
    const known = this.#hashes.get(key);
    if (known !== undefined) return known;
    const hash = hashOf(this.context.namespace, key);
    if (this.#hashes.size >= HASHES_REMEMBERED) this.#hashes.clear();
    this.#hashes.set(key, hash);
    return hash;
  }

  /** A statement whose `{names}` are the rows of these keys, given last. */
  byNames(
    name: StatementName,
    values: readonly Value[],
    names: readonly Uint8Array[],
    call: CallContext,
  ): Promise<Answer> {
    const marks = names.map(() => "?").join(", ");
    return this.run(sql[name].replace("{names}", marks), [...values, ...names], call);
  }

  /** `text` with one more condition where the server has to be asked whether it is the primary. */
  async guarded(
    text: string,
    condition: "is_primary" | "is_granting",
    values: readonly Value[],
    call: CallContext,
  ): Promise<Answer> {
    const { isGuarded, facts } = await this.context.pool.primary(call);
    if (!isGuarded) return this.run(text, values, call);
    return this.run(`${text} AND ${sql[condition]}`, [...values, facts.server], call);
  }

  /** A procedure, whose second value is the server that must be the primary. */
  async call(
    name: "attempt" | "release" | "renew" | "revoke",
    keys: Uint8Array,
    values: readonly Value[],
    call: CallContext,
  ): Promise<Answer> {
    const { pool } = this.context;
    for (let attempt = 1; ; attempt += 1) {
      const { isGuarded, facts } = await pool.primary(call);
      try {
        return await this.run(sql[name], [keys, isGuarded ? facts.server : null, ...values], call);
      } catch (error) {
        if (!isPrimaryMoved(error) || attempt === MOST_TRIES || call.signal.aborted) throw error;
        pool.forget();
      }
    }
  }

  async run(text: string, values: readonly Value[], call: CallContext): Promise<Answer> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const answer = await this.context.pool.run(text, values, call);
        this.#afterStep();
        return answer;
      } catch (error) {
        if (!isDeadlock(error) || attempt === MOST_TRIES || call.signal.aborted) throw error;
        await call.sleep?.(attempt);
      }
    }
  }
}

/** The keys of a request in the order of their names, so that no two steps wait for each other. */
export interface KeyRecords {
  readonly bytes: Uint8Array;
  /** By position in `bytes`, the position in the request. */
  readonly order: readonly number[];
}

/** As procedures.sql describes it. `used`: the last fence of each key that was used. */
export function encodeKeys(steps: Steps, keys: readonly string[], used: readonly bigint[] = []): KeyRecords {
  const names = keys.map((key) => steps.hash(key));
  const order = [...keys.keys()].sort((a, b) =>
    Buffer.compare(names[a] as Uint8Array, names[b] as Uint8Array),
  );
  const parts = order.flatMap((at) => {
    const key = Buffer.from(keys[at] as string);
    const fence = String(used[at] ?? 0n).padStart(FENCE_DIGITS, "0");
    const head = Buffer.from(fence + String(key.length).padStart(LENGTH_DIGITS, "0"));
    return [names[at] as Uint8Array, head, key];
  });
  return { bytes: Buffer.concat(parts), order };
}

export function toUs(ms: number): number {
  return Math.ceil(ms * 1_000);
}
