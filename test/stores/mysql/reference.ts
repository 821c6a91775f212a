// The rules of the procedures once more, in their plainest form: lists that are searched from the front, no
// tickets, no counts. A history that is played on both must give the same answers.

import type {
  AttemptAnswer,
  HolderInfo,
  LockInfo,
  RenewAnswer,
  Request,
  RevokeAnswer,
  RevokeOptions,
} from "../../../src/core/store.ts";

const CLAIM_US = 2_000_000;
const SHORTEST_CLAIM_US = 200_000;
const FORGOTTEN_US = 10_000_000;

interface Holder {
  readonly request: Request;
  readonly fence: number;
  readonly room: number;
  readonly since: number;
  used: number;
  ends: number;
  keep: number;
  label: string;
  isKept: boolean;
  note?: string | undefined;
  reason?: string | undefined;
}

interface Waiter {
  readonly request: Request;
  readonly since: number;
  alive: number;
  called: boolean;
}

interface Key {
  readonly name: string;
  holders: Holder[];
  queue: Waiter[];
  limit: number;
  last: number;
}

/** Times are microseconds. No store can be woken here, so that every waiter comes back after a second. */
export class MysqlReference {
  nowUs = 0;
  readonly #keys = new Map<string, Key>();
  readonly #ended = new Set<string>();

  /** `againMs`: what the procedure said. A renewal of one of many holders does not change it at once. */
  attempt(request: Request, againMs: number): AttemptAnswer<null> {
    if (this.#ended.has(request.id)) return { ended: true };
    const keys = this.#swept(request.keys);
    const own = keys.map((key) => key.holders.find((one) => isRowOf(one, request.id)));
    for (const [at, key] of keys.entries()) {
      if (own[at] === undefined && fits(key, request) && this.#before(key, request).length > 0)
        this.#call(key);
    }
    if (own.some((one) => one?.reason !== undefined || one?.isKept === true)) return this.#end(request);
    if (own.every((one) => one !== undefined)) {
      for (const one of own) one.ends = Math.max(one.ends, this.nowUs + lastsUs(request));
      return granted(request, own);
    }
    if (own.some((one) => one !== undefined)) {
      for (const key of keys) this.#remove(key, request.id);
      for (const key of keys) this.#call(key);
      return this.#end(request);
    }
    const isNext = keys.every((key) => fits(key, request) && this.#before(key, request).length === 0);
    if (isNext)
      return granted(
        request,
        keys.map((key) => this.#grant(key, request)),
      );
    const answer = this.#busy(keys, request, againMs);
    if (!request.queue) this.#ended.add(request.id);
    return answer;
  }

  release(request: Request, used: readonly number[]): "released" | "not-held" {
    return this.#finish(request, used) ? "released" : "not-held";
  }

  abandon(request: Request): void {
    this.#finish(request, null);
  }

  renew({ keys, id, ttlMs, graceMs, label }: Request, used: readonly number[]): RenewAnswer {
    const own = this.#swept(keys).map((key) => owned(key, id));
    if (own.some((one) => one === undefined)) return { state: "lost", reason: "gone" };
    const reason = own.find((one) => one?.reason !== undefined)?.reason;
    if (reason !== undefined) return { state: "lost", reason: "revoked", detail: reason };
    for (const [at, one] of (own as Holder[]).entries()) {
      one.ends = Math.max(one.ends, this.nowUs + (ttlMs + graceMs) * 1_000);
      one.used = used[at] as number;
      one.label = label;
    }
    return { state: "renewed", validMs: ttlMs };
  }

  owns({ keys, id }: Request): boolean {
    const own = this.#swept(keys).map((key) => owned(key, id));
    return own.every((one) => one !== undefined && one.reason === undefined);
  }

  note({ keys, id }: Request, waitingFor: string | null): void {
    for (const key of this.#swept(keys)) {
      const one = owned(key, id);
      if (one !== undefined) one.note = waitingFor ?? undefined;
    }
  }

  revoke(name: string, { fence, reason, force }: RevokeOptions): RevokeAnswer {
    const [key] = this.#swept([name]) as [Key];
    if (key.holders.length === 0) return "free";
    const met = key.holders.filter(
      (one) => fence === undefined || (one.fence <= fence && fence <= one.fence + one.room),
    );
    if (met.length === 0) return "other-fence";
    for (const one of met) [one.reason, one.keep] = [reason, 0];
    key.holders = key.holders.filter((one) => !(met.includes(one) && (force || one.isKept)));
    this.#call(key);
    return "revoked";
  }

  inspect(name: string): LockInfo | null {
    const key = structuredClone(this.#key(name));
    this.#sweep(key);
    const queue = key.queue.filter((one) => one.alive > this.nowUs - FORGOTTEN_US);
    if (key.holders.length === 0 && queue.length === 0) return null;
    const limits = queue.map((one) => one.request.limit);
    return {
      key: name,
      limit: Math.max(key.holders.length === 0 ? 1 : key.limit, ...limits),
      holders: key.holders.map((one) => this.#info(one)),
      waiters: queue.map(({ request, since }) => ({
        label: request.label,
        mode: request.mode,
        permits: request.permits,
        waitedMs: (this.nowUs - since) / 1_000,
      })),
    };
  }

  #key(name: string): Key {
    const known = this.#keys.get(name);
    if (known !== undefined) return known;
    const key: Key = { name, holders: [], queue: [], limit: 1, last: 0 };
    this.#keys.set(name, key);
    return key;
  }

  #swept(names: readonly string[]): Key[] {
    const keys = names.map((name) => this.#key(name));
    for (const key of keys) this.#sweep(key);
    return keys;
  }

  #sweep(key: Key): void {
    for (const one of key.holders.filter(({ ends }) => ends <= this.nowUs)) this.#let(key, one);
  }

  /** Takes a holder out, or leaves it without an owner where the key must stay taken. */
  #let(key: Key, one: Holder): void {
    if (!one.isKept && one.keep > this.nowUs) [one.isKept, one.ends, one.note] = [true, one.keep, undefined];
    else key.holders = key.holders.filter((other) => other !== one);
  }

  #remove(key: Key, id: string, used?: number): boolean {
    const one = owned(key, id);
    if (one === undefined) return false;
    if (used !== undefined && key.last === one.fence + one.room)
      key.last = Math.min(key.last, Math.max(one.fence, one.used, used));
    this.#let(key, one);
    return true;
  }

  #finish(request: Request, used: readonly number[] | null): boolean {
    this.#ended.add(request.id);
    const keys = this.#swept(request.keys);
    const held = keys.map((key, at) => this.#remove(key, request.id, used?.[at]));
    for (const key of keys) {
      key.queue = key.queue.filter((one) => one.request.id !== request.id);
      this.#call(key);
    }
    return held.every(Boolean);
  }

  #end(request: Request): AttemptAnswer<null> {
    this.#ended.add(request.id);
    return { ended: true };
  }

  #before(key: Key, request: Request): Waiter[] {
    const at = key.queue.findIndex((one) => one.request.id === request.id);
    return key.queue.slice(0, at === -1 ? undefined : at).filter((one) => one.alive > this.nowUs);
  }

  /** The first live waiter is told, and the key is reserved for it. */
  #call(key: Key): void {
    const first = key.queue.find((one) => one.alive > this.nowUs);
    if (first === undefined || first.called || !fits(key, first.request)) return;
    first.called = true;
    // Nobody can wake it.
    const claim = Math.max(claimUs(first.request), 1_200_000);
    first.alive = Math.min(first.alive, this.nowUs + claim);
  }

  #grant(key: Key, request: Request): Holder {
    const fence = Math.max(key.last + 1, this.nowUs);
    const room = request.mode === "exclusive" && request.limit === 1 ? request.reservedFences : 0;
    const at = key.queue.findIndex((one) => one.request.id === request.id);
    key.queue = key.queue.filter((one, i) => {
      if (one.request.id === request.id) return false;
      return !((at === -1 || i < at) && one.alive < this.nowUs - FORGOTTEN_US);
    });
    const holder: Holder = {
      ...{ request, fence, room, since: this.nowUs, used: fence, label: request.label, isKept: false },
      ends: this.nowUs + lastsUs(request),
      keep: request.keepMs > 0 ? this.nowUs + request.keepMs * 1_000 : 0,
    };
    key.limit = key.holders.length === 0 ? request.limit : Math.max(key.limit, request.limit);
    key.holders.push(holder);
    key.last = fence + room;
    if (!isExclusive(request)) this.#call(key);
    return holder;
  }

  #busy(keys: readonly Key[], request: Request, againMs: number): AttemptAnswer<null> {
    const blocking = keys.filter((key) => !fits(key, request) || this.#before(key, request).length > 0);
    const position = Math.max(...blocking.map((key) => this.#before(key, request).length));
    if (request.queue) for (const key of keys) this.#join(key, request, againMs);
    return { busy: { againMs, ...(request.queue && position < 10 ? { position } : {}) } };
  }

  #join(key: Key, request: Request, againMs: number): void {
    const alive = this.nowUs + againMs * 1_000 + claimUs(request);
    const own = key.queue.find((one) => one.request.id === request.id);
    if (own === undefined) key.queue.push({ request, since: this.nowUs, alive, called: false });
    else [own.alive, own.called] = [alive, false];
  }

  #info(one: Holder): HolderInfo {
    return {
      label: one.label,
      mode: one.request.mode,
      permits: one.request.permits,
      fence: BigInt(one.used),
      remainingMs: Math.max(0, (one.ends - this.nowUs) / 1_000),
      heldMs: (this.nowUs - one.since) / 1_000,
      ...(one.note === undefined ? {} : { waitingFor: one.note }),
      ...(one.reason === undefined ? {} : { revoked: one.reason }),
      ...(one.isKept ? { kept: true } : {}),
    };
  }
}

function isExclusive({ mode, limit }: Request): boolean {
  return mode === "exclusive" && limit === 1;
}

/** Of an exclusive lock that is only kept nobody knows whose it was. */
function isRowOf(one: Holder, id: string): boolean {
  return one.request.id === id && !(one.isKept && isExclusive(one.request));
}

function owned(key: Key, id: string): Holder | undefined {
  return key.holders.find((one) => one.request.id === id && !one.isKept);
}

function fits(key: Key, { mode, permits, limit }: Request): boolean {
  if (key.holders.length === 0) return true;
  if (limit > 1 !== key.limit > 1) return false;
  if (limit > 1) return key.holders.reduce((sum, one) => sum + one.request.permits, permits) <= limit;
  return mode === "shared" && key.holders.every((one) => one.request.mode === "shared");
}

function lastsUs({ ttlMs, graceMs }: Request): number {
  return (ttlMs + graceMs) * 1_000;
}

function claimUs({ ttlMs }: Request): number {
  return Math.min(CLAIM_US, Math.max(SHORTEST_CLAIM_US, ttlMs * 1_000));
}

function granted(request: Request, holders: readonly Holder[]): AttemptAnswer<null> {
  return {
    granted: {
      fences: holders.map(({ fence }) => BigInt(fence)),
      reservedFences: isExclusive(request) ? request.reservedFences : 0,
      validMs: request.ttlMs,
      cookie: null,
    },
  };
}
