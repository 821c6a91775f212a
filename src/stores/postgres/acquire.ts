// How a key is taken, waited for and released. Each call is one function in the server (sql/functions.sql),
// which decides under the lock of the key's row.

import type { AttemptAnswer, DirectCalls, Io, Request } from "../../core/store.ts";
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import type { Context } from "./context.ts";
import { isServerError, isUndone } from "./errors.ts";
import { CLAIM_MS, POLL_MS } from "./guarantees.ts";
import type { RowName } from "./names.ts";
import { type OpenRequest, OpenRequests } from "./open-requests.ts";
import { readAttempt } from "./replies.ts";

/** No reservation is shorter than this, whatever the ttl: a waiter has to hear of it and to answer. */
const SHORTEST_CLAIM_MS = 200;
/** Without notifications. */
const UNNOTIFIED_POLL_MS = 250;
/** How long core waits for a direct call, which has a third of the ttl. */
const SHORTEST_CALL_MS = 50;
const LONGEST_CALL_MS = 2_000;
/** So many are remembered. */
const MOST_UNCONTENDED = 4_096;

export class Acquire {
  readonly #context: Context;
  readonly #requests: OpenRequests;
  /**
   * Keys that have a row, and that were free when this process last asked. For other keys a plain statement
   * would be one round trip more.
   */
  readonly #uncontended = new Set<string>();

  constructor(context: Context) {
    this.#context = context;
    this.#requests = new OpenRequests(() => context.system.monoMs());
  }

  async attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    const context = this.#context;
    context.refuseClosed(request.keys[0]);
    const open = this.#requests.begin(request);
    if (open === null) return { ended: true };
    // A waiter that attempts again is the one who misses notifications that do not come.
    if (request.seq > 1) void context.notifications.start();
    const names = context.names.sorted(request.keys);
    const answer = await this.#sendAttempt(request, names, open, io);
    return this.#answered(request, readAttempt(answer, request, this.#orderOf(request, names)));
  }

  async release(request: Request, lastFences: readonly bigint[], io: Io): Promise<"released" | "not-held"> {
    const mark = this.#requests.end(request);
    const [name, values] =
      request.keys.length === 1
        ? (["release_one", this.#releaseOneValues(request, lastFences[0], mark)] as const)
        : (["release", this.#releaseValues(request, lastFences, mark)] as const);
    const answer = await this.#context.call(name, request.keys, values, io);
    this.#requests.forget(request);
    return answer === "true" ? "released" : "not-held";
  }

  /** All in one call. Gives those whose rows are damaged or stay locked. */
  async abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    if (requests.length === 0) return [];
    const { names: rowNames, namespace } = this.#context;
    const items = requests
      .map((request) => ({
        request,
        names: rowNames.sorted(request.keys),
        mark: this.#requests.end(request),
      }))
      .sort((a, b) => Buffer.compare((a.names[0] as RowName).digest, (b.names[0] as RowName).digest));
    const names = items.flatMap(({ names: own }) => own);
    const values = [
      names.map(({ digest }) => digest),
      namespace,
      names.map(({ key }) => key),
      items.flatMap(({ names: own }, at) => own.map(() => at + 1)),
      items.map(({ request }) => request.id),
      items.map(({ mark }) => mark),
    ];
    const answer = (await this.#context.call("abandon", requests[0]?.keys ?? [], values, io)) ?? "";
    for (const [at, { request }] of items.entries()) if (answer[at] === "d") this.#requests.forget(request);
    return items.filter((_item, at) => answer[at] !== "d").map(({ request }) => request);
  }

  forget(request: Request): void {
    this.#requests.forget(request);
  }

  forgetUnsent(request: Request): boolean {
    if (!this.#requests.isUnsent(request)) return false;
    this.#requests.forget(request);
    return true;
  }

  /** Calls of plain locks without promises, signals and timers of their own. */
  get direct(): DirectCalls<null> {
    const { connections, sql, system } = this.#context;
    const sleep = (ms: number): Promise<void> => new Promise((resolve) => void system.after(ms, resolve));
    const ioOf = ({ ttlMs }: Request): Io => {
      const timeoutMs = Math.min(LONGEST_CALL_MS, Math.max(SHORTEST_CALL_MS, ttlMs / 3));
      return { signal: NEVER_ABORTED, timeoutMs, sleep };
    };
    return {
      attempt: (request, settle) => {
        const key = request.keys[0] as string;
        this.#context.refuseClosed(key);
        const open = this.#requests.begin(request);
        if (open === null) return process.nextTick(settle, null, { ended: true });
        const io = ioOf(request);
        const missed = (): void => {
          open.answered();
          this.#uncontended.delete(key);
        };
        const call = { ...io, sent: () => open.send(), missed };
        const plain = this.#uncontended.has(key) ? { text: sql.attempt_free, values: 6 } : null;
        const statement = { text: sql.attempt_one, values: this.#attemptOneValues(request), plain };
        connections.queryDirect(statement, call, (error, rows) => {
          if (error === null || isServerError(error)) open.answered();
          const answer = rows?.[0]?.["answer"] ?? null;
          if (answer?.startsWith("g") === true) this.#addUncontended(key);
          if (answer !== null)
            return settle(null, this.#answered(request, readAttempt(answer, request, null)));
          if (!isUndone(error)) return settle(this.#context.errorOf(error, "attempt", request.keys), null);
          this.attempt(request, io).then(
            (late) => settle(null, late),
            (again: unknown) => settle(again, null),
          );
        });
      },
      release: (request, _cookie, lastFence, settle) => {
        const key = request.keys[0] as string;
        this.#context.refuseClosed(key);
        const io = ioOf(request);
        const mark = this.#requests.end(request);
        const call = { ...io, missed: () => void this.#uncontended.delete(key) };
        const isQuick = !mark && this.#uncontended.has(key);
        const plain = isQuick ? { text: sql.release_free, values: 3 } : null;
        const values = this.#releaseOneValues(request, lastFence, mark);
        connections.queryDirect({ text: sql.release_one, values, plain }, call, (error, rows) => {
          if (rows !== null) {
            this.#requests.forget(request);
            return settle(null, rows[0]?.["answer"] === "true" ? "released" : "not-held");
          }
          if (!isUndone(error)) return settle(this.#context.errorOf(error, "release", request.keys), null);
          this.release(request, [lastFence], io).then(
            (outcome) => settle(null, outcome),
            (again: unknown) => settle(again, null),
          );
        });
      },
    };
  }

  #addUncontended(key: string): void {
    if (this.#uncontended.size >= MOST_UNCONTENDED) this.#uncontended.clear();
    this.#uncontended.add(key);
  }

  async #sendAttempt(
    request: Request,
    names: readonly RowName[],
    open: OpenRequest,
    io: Io,
  ): Promise<string> {
    let sent = 0;
    const call = {
      timeoutMs: io.timeoutMs,
      get signal() {
        return io.signal;
      },
      sleep: (ms: number) => io.sleep(ms),
      sent: () => {
        open.send();
        sent += 1;
      },
    };
    try {
      const [name, values] =
        request.seq === 1 && isPlain(request)
          ? (["attempt_one", this.#attemptOneValues(request)] as const)
          : (["attempt", this.#attemptValues(request, names)] as const);
      const answer = await this.#context.call(name, request.keys, values, call);
      // Every repetition before the last was undone by the server.
      while (sent-- > 0) open.answered();
      return answer as string;
    } catch (error) {
      const last = isServerError((error as Error).cause) ? 0 : 1;
      while (sent-- > last) open.answered();
      throw error;
    }
  }

  #attemptOneValues(request: Request): readonly unknown[] {
    const { namespace, names, proc } = this.#context;
    const { digest, key } = names.of(request.keys[0] as string);
    const label = this.#context.show(request.label);
    const { id, reservedFences, queue } = request;
    const [lastsUs, claimMs, pollMs] = this.#times(request);
    return [digest, id, proc, label, reservedFences, lastsUs, namespace, key, claimMs, pollMs, queue];
  }

  #attemptValues(request: Request, names: readonly RowName[]): readonly unknown[] {
    const { namespace, proc } = this.#context;
    const { id, seq, mode, limit, permits, keepMs, reservedFences, label, queue } = request;
    const [lastsUs, claimMs, pollMs] = this.#times(request);
    return [
      names.map(({ digest }) => digest),
      namespace,
      names.map(({ key }) => key),
      id,
      proc,
      this.#context.show(label),
      limit > 1 ? "p" : mode === "shared" ? "s" : "x",
      permits,
      limit,
      mode === "exclusive" && limit === 1 ? reservedFences : 0,
      lastsUs,
      Math.ceil(keepMs * 1_000),
      claimMs,
      pollMs,
      seq > 1,
      queue,
    ];
  }

  /** Too large numbers are the server's to reject. */
  #times({ ttlMs, graceMs }: Request): readonly [lastsUs: number, claimMs: number, pollMs: number] {
    return [
      Math.ceil((ttlMs + graceMs) * 1_000),
      Math.min(CLAIM_MS, Math.max(SHORTEST_CLAIM_MS, Math.ceil(ttlMs))),
      this.#context.notifications.isListening ? POLL_MS : UNNOTIFIED_POLL_MS,
    ];
  }

  #releaseOneValues({ keys, id }: Request, lastFence: bigint | undefined, mark: boolean): readonly unknown[] {
    const { names, namespace } = this.#context;
    const { digest, key } = names.of(keys[0] as string);
    return [digest, id, lastFence ?? null, namespace, key, mark];
  }

  #releaseValues(request: Request, lastFences: readonly bigint[], mark: boolean): readonly unknown[] {
    const { names: rowNames, namespace } = this.#context;
    const names = rowNames.sorted(request.keys);
    const order = this.#orderOf(request, names);
    const used = names.map((_name, at) => lastFences[order?.indexOf(at) ?? at]);
    return [
      names.map(({ digest }) => digest),
      namespace,
      names.map(({ key }) => key),
      request.id,
      used.map((fence) => (fence === undefined ? null : String(fence))),
      mark,
    ];
  }

  /** Per key of the request, where its row stands among the sorted ones; null for a single key. */
  #orderOf({ keys }: Request, names: readonly RowName[]): readonly number[] | null {
    if (keys.length === 1) return null;
    const digests = keys.map((key) => this.#context.names.of(key).digest);
    return digests.map((digest) => names.findIndex((name) => name.digest.equals(digest)));
  }

  /** Nobody asks again with an id that has ended, or that did not queue. */
  #answered(request: Request, answer: AttemptAnswer<null>): AttemptAnswer<null> {
    if ("ended" in answer || ("busy" in answer && !request.queue)) this.#requests.forget(request);
    return answer;
  }
}

/** One exclusive lock that ends with its lease. */
function isPlain({ keys, mode, limit, keepMs }: Request): boolean {
  return keys.length === 1 && mode === "exclusive" && limit === 1 && keepMs === 0;
}
