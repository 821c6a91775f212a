// Finds connections that have stopped answering: the host is gone, a NAT has forgotten the connection, or
// its address has moved. TCP reports such a half-open connection only after minutes, while a new one
// works at once.
//
// 1. Every call reports when it is sent and when its answer arrives. Any answer, also an error of the
//    server, shows that the connection works.
// 2. Two calls whose timeouts are over, without any answer on the connection since they were sent, make
//    it silent.
// 3. Before it sends the next call, the store checks `isSilent`, closes a silent connection and connects
//    again after `reconnectPauseMs`. The calls of the closed connection fail with its error, so core
//    repeats them (P13).
//
// Nothing here sets a timer: an unused connection may be silent for any time.

import type { System } from "../../core/system.ts";

/** Clock and randomness of the store. */
export type HealthSystem = Pick<System, "monoMs" | "random" | "yield">;

/** A call that has no answer yet. */
export interface OpenCall {
  readonly sentAtMs: number;
  readonly overdueAtMs: number;
  hasEnded: boolean;
}

/** A connection is silent after this many calls in a row without an answer. */
const MOST_UNANSWERED = 2;
/** Ended calls are removed in batches of this size. */
const MOST_ENDED = 1_024;
/** For a call without a timeout of its own, such as one that opens a store. */
const DEFAULT_TIMEOUT_MS = 2_000;
/** A short ttl has short timeouts. A server that stalls for less than this must not lose its connections. */
const SHORTEST_SILENCE_MS = 500;
/** The pause is random up to this, so that clients that lost their connections together return one by one. */
const LONGEST_PAUSE_MS = 100;

/** The health of one connection. A new connection begins with `reset()`, or with a health of its own. */
export class ConnectionHealth {
  readonly #system: HealthSystem;
  /** In the order of their sends. All calls before `#first` have ended, and some after it. */
  #open: OpenCall[] = [];
  #first = 0;
  #heardAtMs: number;

  constructor(system: HealthSystem) {
    this.#system = system;
    this.#heardAtMs = system.monoMs();
  }

  /** No call waits for an answer. */
  get isIdle(): boolean {
    return this.#first === this.#open.length;
  }

  /** The connection must be closed: it does not answer. */
  get isSilent(): boolean {
    if (this.#open.length - this.#first < MOST_UNANSWERED) return false;
    const nowMs = this.#system.monoMs();
    let unanswered = 0;
    for (let at = this.#first; at < this.#open.length; at += 1) {
      const { sentAtMs, overdueAtMs, hasEnded } = this.#open[at] as OpenCall;
      if (hasEnded) continue;
      // Later calls are hardly ever overdue before this one, and there may be many of them.
      if (nowMs < overdueAtMs) return false;
      if (sentAtMs < this.#heardAtMs || nowMs < sentAtMs + SHORTEST_SILENCE_MS) continue;
      unanswered += 1;
      if (unanswered === MOST_UNANSWERED) return true;
    }
    return false;
  }

  /** The oldest call is overdue. A store that can should check whether the server is still alive. */
  get isLate(): boolean {
    const oldest = this.#open[this.#first];
    return oldest !== undefined && this.#system.monoMs() >= oldest.overdueAtMs;
  }

  /** How long to wait before connecting again after a silence. */
  get reconnectPauseMs(): number {
    return this.#system.random() * LONGEST_PAUSE_MS;
  }

  /** Reports that a call was sent. Report its end with `answered` or `failed`. */
  sent(timeoutMs: number = DEFAULT_TIMEOUT_MS): OpenCall {
    const sentAtMs = this.#system.monoMs();
    const call = { sentAtMs, overdueAtMs: sentAtMs + timeoutMs, hasEnded: false };
    this.#open.push(call);
    return call;
  }

  /** The server answered this call, perhaps with an error. */
  answered(call: OpenCall): void {
    this.failed(call);
    this.#heardAtMs = this.#system.monoMs();
  }

  /** The call ended without an answer, for example because its connection was closed. */
  failed(call: OpenCall): void {
    call.hasEnded = true;
    // Answers arrive nearly in the order of the sends, so the ended calls are at the start.
    while (this.#open[this.#first]?.hasEnded === true) this.#first += 1;
    if (this.#first < this.#open.length && this.#first < MOST_ENDED) return;
    this.#open.splice(0, this.#first);
    this.#first = 0;
  }

  /** Any other sign of life of the server, such as a notification. */
  heard(): void {
    this.#heardAtMs = this.#system.monoMs();
  }

  /** Starts again for a new connection. */
  reset(): void {
    this.#open = [];
    this.#first = 0;
    this.heard();
  }

  /** Runs one call. However it settles, the connection has answered, or is closed. */
  watch<T>(timeoutMs: number | undefined, run: () => Promise<T>): Promise<T> {
    const call = this.sent(timeoutMs);
    const running = run();
    const settled = (): void => this.answered(call);
    running.then(settled, settled);
    return running;
  }
}
