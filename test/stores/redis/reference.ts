// The rules of the scripts once more, in their plainest form: lists that are searched from the front, no
// tickets, no counts. A history that is played on both must give the same answers.

import type {
  AttemptAnswer,
  HolderInfo,
  LockInfo,
  Request,
  RevokeAnswer,
  RevokeOptions,
} from "../../../src/core/store.ts";

const CLAIM_US = 1_000_000;
const SHORTEST_CLAIM_US = 200_000;

/** What differs between the stores that follow these rules. */
export interface Rules {
  /** Longest times until the next attempt: of the first waiter, and of any. */
  readonly firstBeatMs: number;
  readonly longestBeatMs: number;
  /** One counter for all keys, or one per key. */
  readonly fencePerKey: boolean;
}

const REDIS: Rules = { firstBeatMs: 250, longestBeatMs: 5_000, fencePerKey: false };

interface Holder {
  state: "held" | "revoked" | "kept" | "reserved";
  readonly request: Request;
  readonly proc: string;
  fence: number;
  used: number;
  since: number;
  ends: number;
  keep: number;
  label: string;
  note?: string | undefined;
  reason?: string;
}

interface Waiter {
  readonly request: Request;
  readonly proc: string;
  readonly since: number;
  promised: number;
  called: number;
  isPassedOver: boolean;
  /** It did not attempt as promised. The server forgets it now or later. */
  isDead: boolean;
}

interface Key {
  readonly name: string;
  holders: Holder[];
  queue: Waiter[];
  limit: number;
  changed: boolean;
}

export class RedisReference {
  nowUs = 0;
  pushed: string[] = [];
  /** The largest fence, by key or of all. */
  readonly #clocks = new Map<string, number>();
  readonly #keys = new Map<string, Key>();
  readonly #ended = new Set<string>();
  /** Whether the server still has a place of this id: one that was silent for too long may be gone or not. */
  readonly #hasPlace: (key: string, id: string) => Promise<boolean>;

  readonly #rules: Rules;

  constructor(hasPlace: (key: string, id: string) => Promise<boolean>, rules: Rules = REDIS) {
    this.#hasPlace = hasPlace;
    this.#rules = rules;
  }

  /** `ask`: sends the same attempt to the script, and gives when it wants to hear of the waiter again. */
  async attempt(
    proc: string,
    request: Request,
    ask: () => Promise<number>,
  ): Promise<AttemptAnswer<null> | { readonly wrong: string }> {
    const { id } = request;
    if (this.#ended.has(id)) return { ended: true };
    const keys = request.keys.map((name) => this.#key(name));
    for (const key of keys) {
      const place = key.queue.find((one) => one.request.id === id);
      if (place !== undefined && place.promised < this.nowUs && !(await this.#hasPlace(key.name, id)))
        key.queue.splice(key.queue.indexOf(place), 1);
    }
    const againMs = await ask();
    for (const key of keys) this.#sweep(key);
    const rows = keys.map((key) => key.holders.find((row) => row.request.id === id));
    const held = rows.map((row) => row !== undefined && (row.state === "held" || row.state === "revoked"));
    const isOver = rows.some(
      (row) => row?.state === "revoked" || (row?.state === "kept" && !isPlain(request)),
    );
    if (held.every(Boolean) && !isOver) {
      const own = rows as Holder[];
      for (const row of own) {
        row.ends = Math.max(row.ends, this.nowUs + holdUs(request));
        row.label = request.label;
      }
      return this.#granted(own, request);
    }
    if (isOver || held.some(Boolean)) {
      this.#ended.add(id);
      if (!isOver)
        for (const key of keys) {
          const row = key.holders.find((one) => one.request.id === id);
          if (row !== undefined) this.#remove(key, row);
          this.#settle(key);
        }
      return { ended: true };
    }
    const areNext = keys.map((key) => this.#isNext(key, request));
    if (areNext.every(Boolean)) {
      const own = keys.map((key) => this.#grant(key, proc, request));
      return this.#granted(own, request);
    }
    if (request.queue) for (const key of keys) this.#beat(key, proc, request, againMs);
    else this.#ended.add(id);
    const shown = keys.flatMap((key) => this.#shown(key)).slice(0, 3);
    const holders = shown.toSorted((a, b) => Number(a.fence - b.fence));
    const first = keys.every(
      (key) => key.queue.filter((one) => one.promised >= this.nowUs)[0]?.request.id === id,
    );
    const { firstBeatMs, longestBeatMs } = this.#rules;
    if (againMs < 1 || againMs > longestBeatMs || (first && againMs > firstBeatMs))
      return { wrong: `${againMs} ms until the next attempt` };
    return {
      busy: { holders, againMs, holderCount: keys.reduce((sum, { holders: all }) => sum + all.length, 0) },
    };
  }

  release(_proc: string, request: Request, used: readonly number[]): "released" | "not-held" {
    return this.#end(request, used) ? "released" : "not-held";
  }

  abandon(_proc: string, request: Request): void {
    this.#end(request, []);
  }

  renew(_proc: string, { keys, id, ttlMs, graceMs, label }: Request, used: readonly number[]): unknown {
    const rows = keys.map((name) => this.#live(name, id));
    for (const row of rows) {
      if (row === undefined) return { state: "lost", reason: "gone" };
      if (row.state === "revoked") return { state: "lost", reason: "revoked", detail: row.reason };
    }
    for (const [at, row] of (rows as Holder[]).entries()) {
      row.ends = Math.max(row.ends, this.nowUs + Math.ceil((ttlMs + graceMs) * 1_000));
      row.used = Math.max(row.used, Math.min(used[at] ?? 0, row.fence + room(row.request)));
      row.label = label;
    }
    return { state: "renewed", validMs: ttlMs };
  }

  owns(_proc: string, { keys, id }: Request): boolean {
    return keys.every((name) => this.#live(name, id)?.state === "held");
  }

  note(_proc: string, { keys, id }: Request, waitingFor: string | null): void {
    for (const name of keys) {
      const row = this.#key(name).holders.find((one) => one.request.id === id);
      if (row !== undefined && (row.state === "held" || row.state === "revoked"))
        row.note = waitingFor ?? undefined;
    }
  }

  revoke(_proc: string, name: string, { fence, reason, force }: RevokeOptions): RevokeAnswer {
    const key = this.#key(name);
    this.#sweep(key);
    const rows = key.holders.filter(({ state }) => state !== "reserved");
    const asked = fence === undefined ? null : Number(fence);
    const meant = rows
      .filter((row) => asked === null || (row.fence <= asked && asked <= row.fence + room(row.request)))
      .toSorted((a, b) => a.ends - b.ends || (a.request.id < b.request.id ? -1 : 1));
    for (const row of meant) {
      const isOwned = row.state !== "kept";
      row.keep = 0;
      if (isOwned) this.pushed.push(`revoked ${row.request.id} ${reason}`);
      if (force || !isOwned) this.#remove(key, row);
      else {
        row.state = "revoked";
        row.reason = reason;
      }
    }
    this.#settle(key);
    if (rows.length === 0) return "free";
    return meant.length > 0 ? "revoked" : "other-fence";
  }

  inspect(_proc: string, name: string): LockInfo | null {
    const key = this.#key(name);
    const holders = key.holders
      .filter((row) => row.state !== "reserved" && Math.max(row.ends, row.keep) > this.nowUs)
      .toSorted((a, b) => a.fence - b.fence);
    const waiters = key.queue.filter(({ promised }) => promised >= this.nowUs);
    if (holders.length === 0 && waiters.length === 0) return null;
    return {
      key: name,
      limit: Math.max(holders.length === 0 ? 1 : key.limit, ...waiters.map(({ request }) => request.limit)),
      holders: holders.map((row) => this.#info(row)),
      waiters: waiters.map(({ request, since }) => ({
        label: request.label,
        mode: request.mode,
        permits: request.permits,
        waitedMs: (this.nowUs - since) / 1_000,
      })),
    };
  }

  #key(name: string): Key {
    const known = this.#keys.get(name) ?? { name, holders: [], queue: [], limit: 1, changed: false };
    this.#keys.set(name, known);
    known.changed = false;
    return known;
  }

  #live(name: string, id: string): Holder | undefined {
    const row = this.#key(name).holders.find((one) => one.request.id === id && one.ends > this.nowUs);
    return row?.state === "held" || row?.state === "revoked" ? row : undefined;
  }

  #sweep(key: Key): void {
    for (const row of key.holders.filter(({ ends }) => ends <= this.nowUs)) {
      if (row.state === "reserved") {
        key.holders.splice(key.holders.indexOf(row), 1);
        key.changed = true;
        const waiter = key.queue.find(({ request }) => request.id === row.request.id);
        if (waiter !== undefined) waiter.isPassedOver = true;
      } else this.#remove(key, row);
    }
  }

  #remove(key: Key, row: Holder, used?: number): void {
    const top = row.fence + room(row.request);
    this.#raise(key, used === undefined ? top : Math.min(top, Math.max(row.fence, row.used, used)));
    key.changed = true;
    if (row.state !== "kept" && row.keep > this.nowUs) {
      row.state = "kept";
      row.ends = row.keep;
      row.note = undefined;
    } else key.holders.splice(key.holders.indexOf(row), 1);
  }

  /** The largest fence, which is at least this. */
  #raise(key: Key, fence: number): number {
    const name = this.#rules.fencePerKey ? key.name : "";
    const raised = Math.max(fence, this.#clocks.get(name) ?? 0);
    this.#clocks.set(name, raised);
    return raised;
  }

  #first(key: Key, asker: string | null): Waiter | undefined {
    for (const waiter of [...key.queue]) {
      const { id } = waiter.request;
      if (key.holders.some((row) => row.state === "reserved" && row.request.id === id)) continue;
      if (waiter.promised < this.nowUs && id !== asker) {
        if (!waiter.isDead) key.changed = true;
        waiter.isDead = true;
        continue;
      }
      if (waiter.called > 0 && waiter.called < this.nowUs && !waiter.isPassedOver) {
        waiter.isPassedOver = true;
        key.changed = true;
      }
      if (!waiter.isPassedOver) return waiter;
    }
    return undefined;
  }

  #fits({ holders, limit }: Key, request: Request): boolean {
    if (holders.length === 0) return true;
    const [one] = holders as [Holder];
    if (isPlain(request) || isPlain(one.request) || request.limit > 1 !== limit > 1) return false;
    return (
      request.limit === 1 ||
      holders.reduce((sum, row) => sum + row.request.permits, request.permits) <= request.limit
    );
  }

  #settle(key: Key, asker: string | null = null): boolean {
    for (;;) {
      const waiter = this.#first(key, asker);
      if (waiter === undefined || !this.#fits(key, waiter.request)) return false;
      const { request, proc } = waiter;
      if (request.id === asker) return true;
      if (waiter.called >= this.nowUs) return false;
      this.pushed.push(`turn ${request.id}`);
      waiter.called =
        this.nowUs + Math.min(CLAIM_US, Math.max(SHORTEST_CLAIM_US, Math.ceil(request.ttlMs * 1_000)));
      if (isPlain(request) || request.keys.length > 1) return false;
      this.#insert(key, this.#row("reserved", proc, request, 0, waiter.called));
    }
  }

  #isNext(key: Key, request: Request): boolean {
    const place = key.queue.find((one) => one.request.id === request.id);
    if (place !== undefined) {
      place.promised = Math.max(place.promised, this.nowUs);
      place.called = 0;
      place.isPassedOver = false;
      place.isDead = false;
    }
    if (key.holders.some((row) => row.request.id === request.id && row.state === "reserved")) return true;
    let first = this.#first(key, request.id);
    if (place !== undefined) {
      if (key.changed) return this.#settle(key, request.id);
      return first === place && this.#fits(key, request);
    }
    if (key.changed) {
      this.#settle(key);
      first = this.#first(key, request.id);
    }
    return first === undefined && this.#fits(key, request);
  }

  #grant(key: Key, proc: string, request: Request): Holder {
    key.holders = key.holders.filter((row) => row.request.id !== request.id);
    key.queue = key.queue.filter((one) => one.request.id !== request.id);
    const fence = this.#raise(key, Math.max(this.#raise(key, 0) + 1, this.nowUs));
    const row = this.#row("held", proc, request, fence, this.nowUs + holdUs(request));
    row.keep = request.keepMs > 0 ? this.nowUs + Math.ceil(request.keepMs * 1_000) : 0;
    this.#insert(key, row);
    return row;
  }

  #insert(key: Key, row: Holder): void {
    const { limit } = row.request;
    key.limit = key.holders.length === 0 ? limit : Math.max(key.limit, limit);
    key.holders.push(row);
  }

  #row(state: Holder["state"], proc: string, request: Request, fence: number, ends: number): Holder {
    const { label } = request;
    return { state, request, proc, fence, used: fence, since: this.nowUs, ends, keep: 0, label };
  }

  #beat(key: Key, proc: string, request: Request, againMs: number): void {
    let place = key.queue.find((one) => one.request.id === request.id);
    if (place === undefined) {
      place = {
        request,
        proc,
        since: this.nowUs,
        promised: 0,
        called: 0,
        isPassedOver: false,
        isDead: false,
      };
      key.queue.push(place);
    }
    place.promised = this.nowUs + againMs * 1_000 + CLAIM_US;
  }

  #end({ keys: names, id }: Request, used: readonly number[]): boolean {
    this.#ended.add(id);
    let held = true;
    for (const [at, name] of names.entries()) {
      const key = this.#key(name);
      this.#sweep(key);
      const row = key.holders.find((one) => one.request.id === id && one.state !== "kept");
      held &&= row !== undefined && row.state !== "reserved";
      if (row?.state === "reserved") key.holders.splice(key.holders.indexOf(row), 1);
      else if (row !== undefined) this.#remove(key, row, used[at]);
      key.queue = key.queue.filter((one) => one.request.id !== id);
      this.#settle(key);
    }
    return held;
  }

  #granted(rows: readonly Holder[], request: Request): AttemptAnswer<null> {
    const fences = rows.map(({ fence }) => BigInt(fence));
    return { granted: { fences, reservedFences: room(request), validMs: request.ttlMs, cookie: null } };
  }

  /** The three that end first. */
  #shown({ holders }: Key): HolderInfo[] {
    return holders
      .toSorted((a, b) => a.ends - b.ends || (a.request.id < b.request.id ? -1 : 1))
      .slice(0, 3)
      .filter(({ state }) => state !== "reserved")
      .map((row) => this.#info(row));
  }

  #info(row: Holder): HolderInfo {
    const isKept = row.state === "kept" || row.ends <= this.nowUs;
    return {
      label: row.label,
      mode: row.request.limit > 1 ? "exclusive" : row.request.mode,
      permits: row.request.permits,
      fence: BigInt(row.used),
      remainingMs: Math.max(0, (isKept ? Math.max(row.ends, row.keep) : row.ends) - this.nowUs) / 1_000,
      heldMs: (this.nowUs - row.since) / 1_000,
      ...(row.note === undefined || isKept ? {} : { waitingFor: row.note }),
      ...(row.state === "revoked" ? { revoked: row.reason as string } : {}),
      ...(isKept ? { kept: true } : {}),
    };
  }
}

function isPlain({ mode, limit }: Request): boolean {
  return mode === "exclusive" && limit === 1;
}

function room(request: Request): number {
  return isPlain(request) ? request.reservedFences : 0;
}

function holdUs({ ttlMs, graceMs }: Request): number {
  return Math.ceil((ttlMs + graceMs) * 1_000);
}
