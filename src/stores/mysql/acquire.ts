// How a key is taken, waited for and released.
//
// 1. A plain lock that nobody seems to want is one UPDATE to take it and one to release it (the fast path).
// 2. Where an UPDATE meets no row the key is held, waited for, or has no row yet: the procedure decides.
// 3. A key that was busy lately goes to the procedure at once.

import type { AttemptAnswer, Busy, Grant, HolderInfo, Io, Request } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import type { CallContext } from "../shared/retry-while-unsent.ts";
import type { Answer, Row, Value } from "./client/port.ts";
import { textOf } from "./client/port.ts";
import { codeOf } from "./errors.ts";
import { holderInfo } from "./inspect.ts";
import { OpenRequest } from "./open-requests.ts";
import { sql } from "./sql.ts";
import { encodeKeys, type Steps, toUs } from "./steps.ts";

/** A key that was busy is taken to be so for this long. */
const CONTENDED_MS = 1_000;
const CONTENDED_KEYS = 1_000;
/** No reservation is shorter than this, whatever the ttl: a waiter has to hear of it and attempt. */
const SHORTEST_CLAIM_MS = 200;
/** Core's deadline of a direct call: a third of the ttl. */
const SHORTEST_CALL_MS = 50;
const LONGEST_CALL_MS = 2_000;
/** A position from which on the procedure stops counting. */
const COUNTED_POSITIONS = 10;
const LONGEST_TEXT = 1_024;
/** What the procedure is told of an attempt that joins no queue and waits for no row. */
const WITHOUT_WAITING = -1;

type DirectSettle = (error: unknown, answer: AttemptAnswer<null> | null) => void;

export interface AcquireDeps {
  readonly steps: Steps;
  readonly system: System;
  isListening(): boolean;
}

export class Acquire {
  readonly #deps: AcquireDeps;
  readonly #contended = new Map<string, number>();

  constructor(deps: AcquireDeps) {
    this.#deps = deps;
  }

  /** `open` is told when a statement leaves and when the server has answered. */
  async attempt(request: Request, open: OpenRequest, call: CallContext): Promise<AttemptAnswer<null>> {
    const counted: CallContext = {
      timeoutMs: call.timeoutMs ?? 0,
      get signal() {
        return call.signal;
      },
      sent: open.sent,
      sleep: (ms) => call.sleep?.(ms) ?? Promise.resolve(),
    };
    if (this.#isFast(request)) {
      const { steps } = this.#deps;
      const values = this.#fastValues(request);
      const sending = steps.guarded(sql["acquire_fast"], "is_granting", values, counted);
      const { met, insertId } = await answered(sending, open);
      if (met === 1) return { granted: grantOf(request, [BigInt(insertId)]) };
    }
    return this.#callAttempt(request, open, counted);
  }

  /**
   * As `attempt`, by callback and without a signal. Falls back to promises where the fast path does not do.
   */
  attemptDirect(request: Request, open: OpenRequest, settle: DirectSettle): void {
    const { steps } = this.#deps;
    const timeoutMs = callTimeoutMs(request);
    const general = (isTried: boolean): void => {
      this.withTimeout(request, (call) =>
        isTried
          ? this.#callAttempt(request, open, { ...call, sent: open.sent })
          : this.attempt(request, open, call),
      ).then(
        (answer) => settle(null, answer),
        (error: unknown) => settle(error, null),
      );
    };
    if (!this.#isFast(request)) return general(false);
    const { pool } = steps.context;
    const isSent = pool.send(sql["acquire_fast"], this.#fastValues(request), timeoutMs, (error, answer) => {
      if (isReply(error)) open.answered();
      if (answer === null) settle(error, null);
      else if (answer.met === 0) general(true);
      else settle(null, { granted: grantOf(request, [BigInt(answer.insertId)]) });
    });
    if (isSent) open.sent();
    else general(false);
  }

  /** An attempt of a request that is never repeated or ended. It waits for no row that somebody has locked. */
  attemptAtOnce(request: Request, call: CallContext): Promise<AttemptAnswer<null>> {
    return this.#callAttempt(request, new OpenRequest(), call, WITHOUT_WAITING);
  }

  /**
   * `used`: the last fence of each key, or null where nobody can say. `mayArrive`: an attempt may still come.
   */
  async release(
    request: Request,
    used: readonly bigint[] | null,
    mayArrive: boolean,
    call: CallContext,
  ): Promise<boolean> {
    const { steps } = this.#deps;
    if (used !== null && !mayArrive && this.#isFast({ ...request, seq: 1 })) {
      const values = this.#releaseValues(request, used[0] as bigint);
      const { met } = await steps.guarded(sql["release_fast"], "is_primary", values, call);
      if (met === 1) return true;
    }
    return this.#callRelease(request, used, mayArrive, call);
  }

  releaseDirect(
    request: Request,
    used: bigint,
    mayArrive: boolean,
    settle: (error: unknown, held: boolean | null) => void,
  ): void {
    const { pool } = this.#deps.steps.context;
    const timeoutMs = callTimeoutMs(request);
    const general = (): void => {
      this.withTimeout(request, (call) => this.#callRelease(request, [used], mayArrive, call)).then(
        (held) => settle(null, held),
        (error: unknown) => settle(error, null),
      );
    };
    if (mayArrive || this.#isContended(request)) return general();
    const values = this.#releaseValues(request, used);
    const isSent = pool.send(sql["release_fast"], values, timeoutMs, (error, answer) => {
      if (answer === null) settle(error, null);
      else if (answer.met === 1) settle(null, true);
      else general();
    });
    if (!isSent) general();
  }

  async #callAttempt(
    request: Request,
    open: OpenRequest,
    call: CallContext,
    queue = request.queue ? 1 : 0,
  ): Promise<AttemptAnswer<null>> {
    // It was released or abandoned while the fast path was under way.
    if (open.isEnded) return { ended: true };
    const { steps } = this.#deps;
    const { bytes, order } = encodeKeys(steps, request.keys);
    const values = this.#attemptValues(request, queue);
    const answer = await answered(steps.call("attempt", bytes, values, call), open);
    const [row] = answer.rows;
    const state = textOf(row?.["state"]);
    if (state === "e") return { ended: true };
    if (state === "g") {
      const fences: bigint[] = [];
      for (const [i, fence] of textOf(row?.["fences"]).split(",").entries())
        fences[order[i] as number] = BigInt(fence);
      return { granted: grantOf(request, fences) };
    }
    this.#noteContended(request);
    return { busy: busyOf(answer.rows, request) };
  }

  async #callRelease(
    request: Request,
    used: readonly bigint[] | null,
    mayArrive: boolean,
    call: CallContext,
  ): Promise<boolean> {
    const { steps } = this.#deps;
    const { bytes } = encodeKeys(steps, request.keys, used ?? []);
    const values = [steps.namespace, request.id, used === null ? 0 : 1, mayArrive ? 1 : 0];
    const { rows } = await steps.call("release", bytes, values, call);
    return Number(rows[0]?.["held"]) === 1;
  }

  #isFast(request: Request): boolean {
    const { keys, mode, limit, keepMs, seq } = request;
    const isPlain = keys.length === 1 && mode === "exclusive" && limit === 1 && keepMs === 0;
    return isPlain && seq === 1 && !this.#isContended(request);
  }

  #isContended({ keys }: Request): boolean {
    const untilMs = this.#contended.get(keys[0] as string);
    if (untilMs === undefined) return false;
    if (untilMs > this.#deps.system.monoMs()) return true;
    this.#contended.delete(keys[0] as string);
    return false;
  }

  #noteContended({ keys }: Request): void {
    if (this.#contended.size >= CONTENDED_KEYS) this.#contended.clear();
    const untilMs = this.#deps.system.monoMs() + CONTENDED_MS;
    for (const key of keys) this.#contended.set(key, untilMs);
  }

  #fastValues({ keys, id, label, actor, reservedFences, ttlMs, graceMs }: Request): Value[] {
    const { steps } = this.#deps;
    const who = [id, steps.context.store, shortened(label), shortened(actor)];
    return [...who, reservedFences, toUs(ttlMs + graceMs), steps.hash(keys[0] as string)];
  }

  #releaseValues({ keys, id }: Request, used: bigint): Value[] {
    return [Number(used), this.#deps.steps.hash(keys[0] as string), id];
  }

  #attemptValues(request: Request, queueing: number): Value[] {
    const { steps } = this.#deps;
    const { id, label, actor, mode, permits, limit, ttlMs, graceMs, keepMs, reservedFences, seq } = request;
    const claimMs = Math.min(steps.context.claimMs, Math.max(SHORTEST_CLAIM_MS, ttlMs));
    // Only a lone holder may number its own hand-offs: beside others a number of its room could come after a
    // larger one.
    const room = mode === "exclusive" && limit === 1 ? reservedFences : 0;
    return [
      ...[steps.namespace, id, steps.context.store, shortened(label), shortened(actor)],
      ...[mode === "shared" ? 1 : 0, permits, limit, toUs(ttlMs + graceMs), toUs(claimMs), toUs(keepMs)],
      ...[room, queueing, seq > 1 ? 1 : 0, this.#deps.isListening() ? 1 : 0],
    ];
  }

  /** For a direct call that goes on with promises. */
  async withTimeout<T>(request: Request, work: (call: Io) => Promise<T>): Promise<T> {
    const { system } = this.#deps;
    const timeoutMs = callTimeoutMs(request);
    const controller = system.abortController?.() ?? new AbortController();
    const cancel = system.after(timeoutMs, () => controller.abort());
    const sleep = (ms: number): Promise<void> => new Promise((resolve) => void system.after(ms, resolve));
    try {
      return await work({ timeoutMs, signal: controller.signal, sleep });
    } finally {
      cancel();
    }
  }
}

/** Tells `open` of the server's answer, be it an error. */
async function answered(sending: Promise<Answer>, open: OpenRequest): Promise<Answer> {
  try {
    const answer = await sending;
    open.answered();
    return answer;
  } catch (error) {
    if (isReply(error)) open.answered();
    throw error;
  }
}

/** Whether the server itself has said it: then the statement will not be carried out later. */
function isReply(error: unknown): boolean {
  return error === null || codeOf(error) > 0;
}

function callTimeoutMs({ ttlMs }: Request): number {
  return Math.min(LONGEST_CALL_MS, Math.max(SHORTEST_CALL_MS, ttlMs / 3));
}

function grantOf({ mode, limit, reservedFences, ttlMs }: Request, fences: readonly bigint[]): Grant<null> {
  const room = mode === "exclusive" && limit === 1 ? reservedFences : 0;
  return { fences, reservedFences: room, validMs: ttlMs, cookie: null };
}

function busyOf(rows: readonly Row[], { queue }: Request): Busy {
  const [row] = rows;
  const nowUs = Number(row?.["now_us"]);
  const position = Number(row?.["position"]);
  const holders: HolderInfo[] = rows
    .filter((one) => one["label"] !== null)
    .map((one) => holderInfo(one, nowUs));
  return {
    againMs: Number(row?.["again_ms"]),
    ...(queue && position < COUNTED_POSITIONS ? { position } : {}),
    holders,
    holderCount: Number(row?.["holders"]),
  };
}

/** What the columns take. */
export function shortened(text: string): string {
  return text.length <= LONGEST_TEXT ? text : text.slice(0, LONGEST_TEXT).toWellFormed();
}
