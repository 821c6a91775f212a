// The only file that touches clocks, timers and randomness.

import { randomFillSync } from "node:crypto";
import { setMaxListeners } from "node:events";
import { hostname, uptime } from "node:os";
import { performance } from "node:perf_hooks";
import * as timers from "node:timers";
import { processWide } from "../core/util/process-wide.ts";
import type { Instant, System } from "../core/system.ts";
import { bootClock } from "./boot-clock.ts";
import { hrtimeMs, machineClock } from "./machine-clock.ts";

/** Taken once: the fake timers of a test runner replace the global one, and nobody would be woken. */
const { setImmediate } = timers;
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const CLOSE_ENOUGH_MS = 0.05;

/** Reads the monotonic clock of the machine, in ms. */
const readMachineClock: (() => number) | null = machineClock();

/**
 * performance.now() counts from the start of the process. Adding this makes it the monotonic clock of the machine,
 * which processes share.
 */
const MONO_ORIGIN_MS: number = monoOrigin(readMachineClock ?? hrtimeMs);

/** Read until both clocks were seen at one moment: a process stopped between two readings would be behind for life. */
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
    // Rounded up: a timer that fires a little early would find nothing due and be set again.
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

// One timer that never rings; the process lives as long as it is referenced. One per call would cost more than the call.
const anchor = setInterval(() => {}, LONGEST_TIMER_MS).unref();
let pendingCalls = 0;

function pending(change: 1 | -1): void {
  pendingCalls += change;
  if (pendingCalls === 0) anchor.unref();
  else if (pendingCalls === 1 && change === 1) anchor.ref();
}

// Ids are drawn 256 at a time: one call into the crypto library per id would be the slowest part of an acquire.
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

/** One listener of the process, however many there are here. */
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
  // No warning about a leak: each listener goes with its request.
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

/** One per process: stores and the deadlock detector tell processes apart by it. */
export const nodeSystem: System = processWide("system", () => ownSystem);
