// A client of the store contract for the cases: one request with its id, its sequence numbers and the
// latest answer of the store. The cases decide when it attempts, renews and releases.

import assert from "node:assert/strict";
import type {
  AttemptAnswer,
  Busy,
  Grant,
  HolderInfo,
  LossReason,
  Note,
  OpenStore,
  RenewAnswer,
  RenewItem,
  Request,
} from "../core/store.ts";
import { makeIo } from "./io.ts";

/** The options that a case may set. With the default ttl, a lease never ends within a case. */
type OptionName =
  | "mode"
  | "permits"
  | "limit"
  | "ttlMs"
  | "graceMs"
  | "keepMs"
  | "reservedFences"
  | "label"
  | "queue";
/** Options of a request of a test client. */
export type RequestOptions = Partial<Pick<Request, OptionName>>;

const DEFAULTS: Required<RequestOptions> = {
  mode: "exclusive",
  permits: 1,
  limit: 1,
  ttlMs: 30_000,
  graceMs: 50,
  keepMs: 0,
  reservedFences: 10_000,
  label: "client",
  queue: true,
};

/** A client of the store contract. */
export class TestClient {
  readonly store: OpenStore;
  /** The grant of the latest answer. */
  grant: Grant | null = null;
  /** How often the store has notified it. */
  notifications = 0;
  /** When the attempt or renewal of the grant was sent. */
  #grantSentAtMs = 0;
  request: Request;
  readonly #nowMs: () => number;
  #over = false;
  #turns = 0;

  constructor(
    store: OpenStore,
    keys: readonly string[],
    id: string,
    wish: RequestOptions,
    nowMs: () => number,
  ) {
    this.store = store;
    this.#nowMs = nowMs;
    this.request = { ...DEFAULTS, ...wish, keys, id, seq: 0, actor: id.slice(0, 8) };
  }

  /** Sends an attempt. For a waiter, it is also a heartbeat. */
  async send(): Promise<AttemptAnswer> {
    if (this.#over) this.#begin();
    this.request = { ...this.request, seq: this.request.seq + 1 };
    const sentAtMs = this.#nowMs();
    const answer = await this.store.attempt(this.request, makeIo());
    if ("granted" in answer) {
      this.grant = answer.granted;
      this.#grantSentAtMs = sentAtMs;
    }
    this.#over = !this.request.queue && "busy" in answer;
    return answer;
  }

  /** Sends the same message again, as a network may deliver it twice. */
  repeat(): Promise<AttemptAnswer> {
    return this.store.attempt(this.request, makeIo());
  }

  /** Starts a new request. A request that does not queue ends with its answer. */
  #begin(): void {
    this.#turns += 1;
    const id = this.#turns.toString(16).padStart(8, "0") + this.request.id.slice(8);
    this.request = { ...this.request, id };
  }

  /** Sends an attempt that the store must grant. */
  async acquire(): Promise<Grant> {
    const answer = await this.send();
    assert.ok(
      "granted" in answer,
      `${this.request.label} should have been granted but was told ${show(answer)}`,
    );
    return answer.granted;
  }

  /** As `acquire`, through `direct`. null if the store does not have it. */
  async acquireDirect(): Promise<Grant | null> {
    const { direct } = this.store;
    if (direct === undefined) return null;
    this.request = { ...this.request, seq: this.request.seq + 1 };
    const answer = await this.#settled<AttemptAnswer>((settle) => direct.attempt(this.request, settle));
    assert.ok("granted" in answer, `${this.request.label} should have been granted: ${show(answer)}`);
    return answer.granted;
  }

  /** As `release`, through `direct` if the store has it. */
  releaseDirect(): Promise<"released" | "not-held"> {
    const { direct } = this.store;
    if (direct === undefined) return this.release();
    return this.#settled((settle) => direct.release(this.request, this.grant?.cookie, this.fence, settle));
  }

  #settled<T>(begin: (settle: (error: unknown, value: T | null) => void) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      let isBegun = false;
      begin((error, value) => {
        if (!isBegun) reject(new Error("settle must not be called before the call returns"));
        else if (value === null) reject(error as Error);
        else resolve(value);
      });
      isBegun = true;
    });
  }

  /** Sends an attempt whose answer must be `busy`. */
  async expectBusy(): Promise<Busy> {
    const answer = await this.send();
    assert.ok(
      "busy" in answer,
      `${this.request.label} should have been refused but was told ${show(answer)}`,
    );
    return answer.busy;
  }

  /** Sends an attempt whose answer must be `ended`. */
  async expectEnded(): Promise<void> {
    const answer = await this.send();
    assert.ok("ended" in answer, `${this.request.label} has ended but was told ${show(answer)}`);
  }

  async listen(): Promise<void> {
    await this.store.subscribe?.(this.request, () => (this.notifications += 1));
  }

  item(lastFences: readonly bigint[] = this.fences): RenewItem {
    const { request } = this;
    return { request, cookie: this.grant?.cookie, ttlMs: request.ttlMs, lastFences, label: request.label };
  }

  async renew(lastFences: readonly bigint[] = this.fences): Promise<RenewAnswer> {
    const sentAtMs = this.#nowMs();
    const [answer] = await this.store.renew([this.item(lastFences)], makeIo());
    assert.ok(answer !== undefined, "renew gives one answer per item");
    if (answer.state === "renewed" && this.grant !== null) {
      this.#grantSentAtMs = sentAtMs;
      this.grant = { ...this.grant, validMs: answer.validMs };
    }
    return answer;
  }

  release(lastFences: readonly bigint[] = this.fences): Promise<"released" | "not-held"> {
    return this.store.release(this.request, this.grant?.cookie, { lastFences }, makeIo());
  }

  async abandon(): Promise<void> {
    const left = await this.store.abandon([this.request], makeIo());
    assert.ok(left.length === 0, `${this.request.label} was not abandoned`);
  }

  owns(): Promise<boolean> {
    return this.store.owns(this.request, this.grant?.cookie, makeIo());
  }

  note(note: Note): Promise<void> {
    return this.store.note(this.request, this.grant?.cookie, note, makeIo());
  }

  /** The fence of the first key. */
  get fence(): bigint {
    const [fence] = this.fences;
    assert.ok(fence !== undefined, `${this.request.label} was never granted`);
    return fence;
  }

  get fences(): readonly bigint[] {
    return this.grant?.fences ?? [];
  }

  /** The largest fence that is reserved for the grant. */
  get topFence(): bigint {
    return this.fence + BigInt(this.grant?.reservedFences ?? 0);
  }

  /** When the window of the grant ends, as its holder counts it (P2). */
  endsAtMs(): number {
    assert.ok(this.grant !== null, `${this.request.label} was never granted`);
    return this.#grantSentAtMs + this.grant.validMs;
  }
}

/** The holder, if there is exactly one. Fails otherwise. */
export function onlyHolder(holders: readonly HolderInfo[] | undefined): HolderInfo {
  assert.equal(holders?.length, 1, "one holder is expected");
  return holders?.[0] as HolderInfo;
}

export interface Loss {
  readonly id: string;
  readonly reason: LossReason;
  readonly detail: string | undefined;
}

function show(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) => (typeof part === "bigint" ? part.toString() : part));
}
