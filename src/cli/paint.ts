// Colour where it helps and is wanted: on a terminal, unless NO_COLOR says otherwise.

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

export function paint(style: Style, text: string, stream: NodeJS.WriteStream = stdout()): string {
  const wanted = stream.isTTY && !process.env["NO_COLOR"];
  return wanted ? styleText(STYLES[style], text) : text;
}
