// Durations as people write them. Anything that is not plainly a duration is refused, so that "30" is never guessed at.

import { InvalidArgumentError } from "./errors.ts";

/** Milliseconds, or a number with a unit: "250ms", "30s", "5m", "1h". */
export type Duration = number | `${number}ms` | `${number}s` | `${number}m` | `${number}h`;

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
const PATTERN = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/;

/** Parses a duration that comes as text, for example from the environment. A unit is required. */
export function duration(text: string): number {
  const match = typeof text === "string" ? PATTERN.exec(text) : null;
  if (match === null) throw refused("duration", text);
  return Math.round(Number(match[1]) * (UNIT_MS[match[2] as string] as number));
}

/** Milliseconds of an option's value; `name` is for the error. */
export function toMs(name: string, value: unknown): number {
  if (typeof value === "string" && PATTERN.test(value)) return duration(value);
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) return value;
  throw refused(name, value);
}

function refused(name: string, value: unknown): InvalidArgumentError {
  const shown = typeof value === "string" ? JSON.stringify(value.slice(0, 40)) : String(value).slice(0, 40);
  return new InvalidArgumentError(
    `${name} is ${shown}, which is not a duration: give milliseconds as a number, or text with a unit such as "250ms", "30s", "5m" or "1h"`,
  );
}
