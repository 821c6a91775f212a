// The boot clock, which also runs while the machine is suspended, from the uptime that the runtime
// reports.
//
// Node on Linux and Windows reports the uptime in steps of 10 to 16 ms. Node on macOS, Bun, Deno and some
// containers report whole seconds, so a lease would seem up to a second older than it is. This clock
// ignores such values, and only the wall clock then shows that the machine was suspended.

/**
 * Reading the uptime costs a file read. A suspend also moves the wall clock against the monotonic one, so the
 * uptime is read again when these have moved apart by this much.
 */
const APART_MS = 5;
/**
 * The longest time between two readings of the uptime. The wall clock may have been set back during a
 * suspend.
 */
const REFRESH_MS = 100;
/** A difference below the steps of the uptime is rounding, not a suspend. */
const ROUNDING_MS = 20;

/** `readUptime` returns seconds. The clock starts as the monotonic one and is ahead of it after a suspend. */
export function bootClock(readUptime: () => number): (monoMs: number, wallMs: number) => number {
  let readAt = { monoMs: Number.NEGATIVE_INFINITY, wallMs: 0 };
  /** Uptime less the monotonic clock when the uptime first had a fraction of a second; null before that. */
  let originMs: number | null = null;
  let aheadMs = 0;

  const refresh = (monoMs: number): void => {
    const seconds = readUptime();
    if (originMs === null && Number.isInteger(seconds)) return;
    const differenceMs = seconds * 1_000 - monoMs;
    originMs ??= differenceMs;
    if (Math.abs(differenceMs - originMs - aheadMs) >= ROUNDING_MS) aheadMs = differenceMs - originMs;
  };

  return (monoMs, wallMs) => {
    const passedMs = monoMs - readAt.monoMs;
    if (passedMs >= REFRESH_MS || Math.abs(wallMs - readAt.wallMs - passedMs) >= APART_MS) {
      readAt = { monoMs, wallMs };
      refresh(monoMs);
    }
    return monoMs + aheadMs;
  };
}
