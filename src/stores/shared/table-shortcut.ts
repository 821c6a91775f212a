// The short way: one exclusive lock of the usual kind, taken, renewed and let go in one statement each. It is not tried where it
// would be in vain, because others were seen to wait; whatever it cannot do is left to a step of the rules.

import type { AttemptAnswer, RenewItem, Request } from "../../core/store.ts";
import { toGrant } from "./grant.ts";
import type { Extended, Patience, Table } from "./table.ts";
import type { Kept } from "./table-record.ts";
import type { TableSteps } from "./table-steps.ts";
import type { Turns } from "./turns.ts";

/** Keys that are remembered as crowded; forgotten when there are many. */
const CROWDED_REMEMBERED = 4_096;

export class TableShortcut {
  readonly #table: Table;
  readonly #steps: TableSteps;
  readonly #turns: Turns;
  readonly #proc: string;
  readonly #crowded = new Set<string>();

  constructor(table: Table, steps: TableSteps, turns: Turns, proc: string) {
    this.#table = table;
    this.#steps = steps;
    this.#turns = turns;
    this.#proc = proc;
  }

  /** What a step has seen. */
  learn(kept: readonly Kept[]): void {
    if (this.#crowded.size >= CROWDED_REMEMBERED) this.#crowded.clear();
    for (const { record, gone } of kept) {
      if (record.line.length > 0 || Object.keys(gone).length > 0) this.#crowded.add(record.key);
      else this.#crowded.delete(record.key);
    }
  }

  /** null when it takes more than one statement. */
  async grab(request: Request, turn: number, patience: Patience): Promise<AttemptAnswer<null> | null> {
    const [key] = request.keys as readonly [string];
    if (!this.#usual(request) || this.#crowded.has(key)) return null;
    const { id, label, actor, ttlMs, graceMs, fenceRoom: room } = request;
    const name = this.#steps.name(key);
    const lastsMs = ttlMs + graceMs;
    const wish = { name, id, proc: this.#proc, turn, label, actor, room, lastsMs };
    const fence = await this.#table.grab(wish, patience).catch(this.#undone(null));
    if (fence === null) return null;
    return { granted: toGrant({ fences: [fence], room, validMs: ttlMs }) };
  }

  /** `used`: the last fence that was used. */
  async drop(request: Request, used: number | undefined, patience: Patience): Promise<boolean> {
    const [key] = request.keys as readonly [string];
    if (!this.#usual(request) || this.#crowded.has(key) || used === undefined) return false;
    const [open] = this.#turns.oldestOpen(request) as [number];
    const turn = this.#turns.number(request);
    // Older requests of this store are still open: one number cannot say that this one has ended.
    if (turn === null || turn >= open) return false;
    const wish = { name: this.#steps.name(key), id: request.id, proc: this.#proc, open, used };
    const dropped = await this.#table.drop(wish, patience).catch(this.#undone(false));
    if (dropped) this.#turns.end(request);
    return dropped;
  }

  /** What became of each. Those that are not of the usual kind are left out. */
  async extend(
    items: readonly RenewItem<null>[],
    patience: Patience,
  ): Promise<ReadonlyMap<RenewItem<null>, Extended>> {
    const usual = items.filter(({ request, label }) => this.#usual(request) && this.#table.plain(label));
    if (usual.length === 0) return new Map();
    const wish = usual.map(({ request, ttlMs, lastFences, label }) => ({
      name: this.#steps.name(request.keys[0] as string),
      id: request.id,
      lastsMs: ttlMs + request.graceMs,
      used: Number(lastFences[0] ?? 0n),
      label,
    }));
    const nothing: readonly Extended[] = [];
    const answers = await this.#table.extend(wish, patience).catch(this.#undone(nothing));
    return new Map(usual.map((item, at) => [item, answers[at] ?? "other"]));
  }

  /** Where the server has undone it, or the row may be damaged, a step looks again. */
  #undone<T>(answer: T): (error: unknown) => T {
    return (error) => {
      if (this.#table.undone(error) || this.#table.isDataError(error)) return answer;
      throw error;
    };
  }

  #usual({ keys, mode, limit, permits, keepMs, label, actor }: Request): boolean {
    const usual = keys.length === 1 && mode === "exclusive" && limit === 1 && permits === 1 && keepMs === 0;
    return usual && this.#table.plain(label) && this.#table.plain(actor);
  }
}
