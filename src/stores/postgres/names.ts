// How things are called in PostgreSQL: who an opened store is, which channel it listens on, and texts as people may read them.

import type { System } from "../../core/system.ts";

const CHANNEL = "holdfast_";
const PROC_LENGTH = 16;
const ASCII = /^[\x20-\x7e]*$/;
const CONTROL = /\p{Cc}/u;

/** Random, and then who it is, for people. */
export function procOf(system: System): string {
  return `${system.randomId().slice(0, PROC_LENGTH)}@${system.processLabel.replaceAll(/[^\x20-\x7e]/g, "?")}`;
}

export function whoIs(proc: string): { readonly host: string; readonly process: string } {
  const [, host = "", process = ""] = /@(.*):(\d+)$/.exec(proc) ?? [];
  return { host, process };
}

export function channelOf(proc: string): string {
  return CHANNEL + proc.replace(/@.*$/, "");
}

/** Whether a column of text keeps it exactly as it is. */
export function isPlain(text: string, utf8: boolean): boolean {
  return ASCII.test(text) || (utf8 && text.isWellFormed() && !CONTROL.test(text));
}

/** The text itself, or what can be kept of it. */
export function shown(text: string, utf8: boolean): string {
  if (isPlain(text, utf8)) return text;
  return text.replaceAll(utf8 ? /[\p{Cc}\p{Cs}]/gu : /[^\x20-\x7e]/g, "?");
}
