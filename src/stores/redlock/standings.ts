// What this process knows of its requests: their numbers, what they proposed, which have ended. The server tells late messages
// from live ones by the numbers (P8): whatever is older than the oldest open request of a key has ended.

import type { Request } from "../../core/store.ts";
import { Turns } from "../shared/turns.ts";
import type { Standing } from "./attempt.ts";
import type { Node } from "./node.ts";

export class Standings {
  readonly #turns = new Turns();
  readonly #byId = new Map<string, Standing>();

  /** null when it has ended. */
  of(request: Request, birth: () => number): Standing | null {
    const known = this.#byId.get(request.id);
    if (known !== undefined) return known;
    const turn = this.#turns.number(request);
    if (turn === null) return null;
    const standing: Standing = { turn, birth: birth(), proposed: null, used: 0, calls: 0, spared: [] };
    this.#byId.set(request.id, standing);
    return standing;
  }

  /** It has ended, whether the nodes know it already or not. Gives its number, and the nodes that never heard of it. */
  end(request: Request): { readonly turn: number; readonly spared: readonly Node[] } {
    const standing = this.#byId.get(request.id);
    const spared = standing?.spared ?? [];
    if (standing !== undefined) {
      standing.proposed = null;
      standing.calls += 1;
      standing.spared = [];
    }
    this.#byId.delete(request.id);
    return { turn: this.#turns.end(request), spared };
  }

  /** The oldest number of this key that is open beside this request's own. */
  oldestOpen(request: Request): string {
    return String(this.#turns.oldestOpen(request)[0]);
  }
}
