// The clocks, timers and random numbers of Node.js. No other file of core or of a store uses them directly.

import { randomFillSync } from "node:crypto";
import { setMaxListeners } from "node:events";
import { hostname, uptime } from "node:os";
import { performance } from "node:perf_hooks";
import * as timers from "node:timers";
import { processWide } from "../core/util/process-wide.ts";
import type { Instant, System } from "../core/system.ts";
import { bootClock } from "./boot-clock.ts";
import { hrtimeMs, machineClock } from "./machine-clock.ts";

/** Saved at import: the fake timers of a test runner replace the global one, and would never fire. */
const { setImmediate } = timers;
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const CLOSE_ENOUGH_MS = 0.05;

/** Reads the monotonic clock of the machine, in ms. */
const readMachineClock: (() => number) | null = machineClock();

/**
 * The offset from performance.now(), which starts with the process, to the monotonic clock of the
 * machine, which all processes share.
 */
const MONO_ORIGIN_MS: number = monoOrigin(readMachineClock ?? hrtimeMs);

/**
 * Repeats the reading until both clocks were read at almost the same time, and not around a stop of the
 * process.
 */
function monoOrigin(readMs: () => number): number {
  let best = { spanMs: Number.POSITIVE_INFINITY, originMs: 0 };
  for (let tries = 0; tries < 20 && best.spanMs > CLOSE_ENOUGH_MS; tries += 1) {
    const before = readMs();
    const sinceStart = performance.now();
    const spanMs = readMs() - before;
    if (spanMs < best.spanMs) best = { spanMs, originMs: before - sinceStart };
  }
  return best.originMs;
}

const monoMs = (): number => MONO_ORIGIN_MS + performance.now();

const bootMs = bootClock(uptime);

function now(): Instant {
  const mono = monoMs();
  const wall = Date.now();
  return { monoMs: mono, bootMs: bootMs(mono, wall), wallMs: wall };
}

function after(ms: number, fn: () => void, kind?: "background"): () => void {
  if (ms === Number.POSITIVE_INFINITY) return () => {};
  const endMs = monoMs() + ms;
  const arm = (): NodeJS.Timeout => {
    // Round up: a timer that fires too early finds nothing due and has to be set again.
    const timer = setTimeout(ring, Math.min(LONGEST_TIMER_MS, Math.max(0, Math.ceil(endMs - monoMs()))));
    if (kind === "background") timer.unref();
    return timer;
  };
  const ring = (): void => {
    if (endMs - monoMs() > 1) handle = arm();
    else fn();
  };
  let handle = arm();
  return () => clearTimeout(handle);
}

// A timer that never fires and keeps the process alive while it is referenced. One timer per call would
// cost more than the call.
const anchor = setInterval(() => {}, LONGEST_TIMER_MS).unref();
let pendingCalls = 0;

function pending(change: 1 | -1): void {
  pendingCalls += change;
  if (pendingCalls === 0) anchor.unref();
  else if (pendingCalls === 1 && change === 1) anchor.ref();
}

// Random bytes for 256 ids at a time: a call of the crypto library per id would be the slowest part of an
// acquire.
const pool = Buffer.alloc(16 * 256);
let drawn = pool.length;

function randomId(): string {
  if (drawn === pool.length) {
    randomFillSync(pool);
    drawn = 0;
  }
  drawn += 16;
  return pool.toString("hex", drawn - 16, drawn);
}

const exitListeners = new Set<() => void>();
const callExitListeners = (): void => {
  for (const listener of [...exitListeners]) listener();
};

/** Adds one listener to the process for all listeners. */
function beforeExit(listener: () => void): () => void {
  if (exitListeners.size === 0) process.on("beforeExit", callExitListeners);
  exitListeners.add(listener);
  return () => {
    if (exitListeners.delete(listener) && exitListeners.size === 0)
      process.off("beforeExit", callExitListeners);
  };
}

function abortController(): AbortController {
  const controller = new AbortController();
  // Turn off Node's warning about a leak: each request removes its listener.
  setMaxListeners(0, controller.signal);
  return controller;
}

const ownSystem: System = {
  isMonotonicClockShared: readMachineClock !== null,
  now,
  monoMs,
  wallMs: Date.now,
  after,
  pending,
  abortController,
  beforeExit,
  yield: () => new Promise((resolve) => setImmediate(resolve)),
  randomId,
  random: Math.random,
  processLabel: `${hostname()}:${process.pid}`,
  warn(message, cause) {
    process.emitWarning(
      `${message}: ${cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)}`,
      {
        type: "HoldfastWarning",
      },
    );
  },
};

/** One per process. Stores and the deadlock detector use it as the identity of the process. */
export const nodeSystem: System = processWide("system", () => ownSystem);
