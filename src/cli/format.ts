// Formats keys, labels, durations and tables for people. Keys and labels come from other programs: none of
// their control characters may reach a terminal, and two different keys must never look the same.

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const PLAIN = /^[^\s"'\\]+$/;

/** Returns one line. Control and invisible characters become escapes such as \u{1b}. */
export function escapeControls(text: string): string {
  return text.replace(INVISIBLE, (char) => `\\u{${(char.codePointAt(0) as number).toString(16)}}`);
}

/** JSON that a terminal can show: JSON.stringify leaves some control characters as they are. */
export function toSafeJson(value: unknown): string {
  return JSON.stringify(value).replace(INVISIBLE, (char) =>
    char
      .split("")
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}

/** A key, label or other name as one word: quoted if it is empty or has spaces, quotes or controls. */
export function formatName(text: string): string {
  const shown = escapeControls(text);
  return shown === text && PLAIN.test(text) ? text : `"${escapeControls(text.replace(/["\\]/g, "\\$&"))}"`;
}

/** The URL of a store without its login and its query, which may hold secrets. */
export function redactUrl(url: string): string {
  const [, scheme = "", login = "", path = ""] = /^([^/?#]*(?:\/\/)?)([^/?#]*)([^?#]*)/.exec(url) ?? [];
  return escapeControls(scheme + login.slice(login.lastIndexOf("@") + 1) + path);
}

/** 0ms, 950ms, 12.3s, 4m05s, 2h03m, 3d04h */
export function formatDuration(ms: number): string {
  const whole = Math.max(0, Math.round(ms));
  if (whole < 1_000) return `${whole}ms`;
  if (whole < 59_950) return `${(whole / 1_000).toFixed(1)}s`;
  const seconds = Math.round(whole / 1_000);
  if (seconds < 3_600) return pair(seconds, 60, "m", "s");
  const minutes = Math.round(seconds / 60);
  return minutes < 1_440 ? pair(minutes, 60, "h", "m") : pair(Math.round(minutes / 60), 24, "d", "h");
}

function pair(count: number, base: number, large: string, small: string): string {
  return `${Math.floor(count / base)}${large}${String(count % base).padStart(2, "0")}${small}`;
}

/** Left-aligned columns. */
export function renderTable(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, i) => (widths[i] = Math.max(widths[i] ?? 0, cell.length)));
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, i) => pad(cell, widths[i] as number))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

function pad(cell: string, width: number): string {
  return cell.padEnd(width);
}
