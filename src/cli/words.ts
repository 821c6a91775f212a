// How keys, labels and times are shown to people. Keys and labels are other people's text: nothing in them
// may reach a terminal as a control character, and two different keys must never look the same.

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const PLAIN = /^[^\s"'\\]+$/;

/** On one line, with whatever a terminal would act on or hide written out. */
export function clean(text: string): string {
  return text.replace(UNSEEN, (char) => `\\u{${(char.codePointAt(0) as number).toString(16)}}`);
}

/** The same for JSON, which by itself writes out less than a terminal acts on. Reads back as what it was. */
export function json(value: unknown): string {
  return JSON.stringify(value).replace(UNSEEN, (char) =>
    char
      .split("")
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}

/** A key or label as one column: bare where that is clear, otherwise quoted. */
export function name(text: string): string {
  const shown = clean(text);
  return shown === text && PLAIN.test(text) ? text : `"${clean(text.replace(/["\\]/g, "\\$&"))}"`;
}

/**
 * A store's URL without what may be secret in it: the login, and whatever stands behind the question mark.
 */
export function place(url: string): string {
  const [, scheme = "", login = "", path = ""] = /^([^/?#]*(?:\/\/)?)([^/?#]*)([^?#]*)/.exec(url) ?? [];
  return clean(scheme + login.slice(login.lastIndexOf("@") + 1) + path);
}

/** 0ms, 950ms, 12.3s, 4m05s, 2h03m, 3d04h */
export function time(ms: number): string {
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

/** Columns as wide as their widest cell; the last one runs free. */
export function table(rows: readonly (readonly string[])[]): string {
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
