// Colours for terminals. NO_COLOR turns them off (https://no-color.org).

import { styleText } from "node:util";
import { stdout } from "./output.ts";

const STYLES = {
  danger: "red",
  warning: "yellow",
  info: "cyan",
  good: "green",
  head: "bold",
  dim: "dim",
} as const;

export type Style = keyof typeof STYLES;

export function colorize(style: Style, text: string, stream: NodeJS.WriteStream = stdout()): string {
  const isColored = stream.isTTY && !process.env["NO_COLOR"];
  return isColored ? styleText(STYLES[style], text) : text;
}
