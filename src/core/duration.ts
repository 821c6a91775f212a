// Durations in options. A string needs a unit: "30" is rejected, because it could mean seconds or
// milliseconds.

import { InvalidArgumentError } from "./errors.ts";

/**
 * A number of milliseconds, or a string with a unit.
 *
 * @example
 * const durations: Duration[] = [250, "250ms", "30s", "5m", "1h"];
 */
export type Duration = number | `${number}ms` | `${number}s` | `${number}m` | `${number}h`;

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
const PATTERN = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/;

/**
 * Parses a duration from text, for example from the environment, and returns milliseconds. The text must
 * have a unit.
 *
 * @throws InvalidArgumentError if the text is not a duration.
 * @example
 * const wait = duration(process.env["LOCK_WAIT"] ?? "5s");
 */
export function duration(text: string): number {
  const match = typeof text === "string" ? PATTERN.exec(text) : null;
  if (match === null) throw invalid("duration", 'text such as "250ms", "30s", "5m" or "1h"', text);
  return Math.round(Number(match[1]) * (UNIT_MS[match[2] as string] as number));
}

/** The value of an option in ms. `name` is the option's name for the error message. */
export function toMs(name: string, value: unknown): number {
  if (typeof value === "string" && PATTERN.test(value)) return duration(value);
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) return value;
  throw invalid(name, 'a duration such as "30s" or 30000 (ms)', value);
}

function invalid(name: string, expected: string, value: unknown): InvalidArgumentError {
  const shown = typeof value === "string" ? JSON.stringify(value.slice(0, 40)) : String(value).slice(0, 40);
  return new InvalidArgumentError(`${name} must be ${expected}, got ${shown}`);
}
