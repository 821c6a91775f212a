// `npm run picture`: runs the demo and draws its output as docs/demo.svg, the picture in README.md. Each line
// appears when the demo printed it. The animation is CSS and ends with the whole output.

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

interface Line {
  readonly text: string;
  readonly atMs: number;
}

const root = join(import.meta.dirname, "..");
const COMMAND = "npm run demo";
const CHARACTER = 8.4;
const LINE = 20;
const MARGIN = 24;

async function record(): Promise<Line[]> {
  const demo = spawn(process.execPath, [join(root, "dist", "demo", "main.js")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = new Promise<number | null>((resolve) => demo.once("exit", resolve));
  const startedAtMs = performance.now();
  const lines: Line[] = [];
  for await (const text of createInterface(demo.stdout)) {
    lines.push({ text, atMs: performance.now() - startedAtMs });
  }
  const code = await exited;
  if (code !== 0) throw new Error(`the demo ended with exit code ${code}`);
  return lines;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function color({ text }: Line): string {
  if (text.startsWith("without a lock")) return "#ff9e8a";
  if (text.startsWith("with holdfast")) return "#8fe3a8";
  return "#d8dee9";
}

function draw(recorded: readonly Line[]): string {
  const lines = [{ text: `$ ${COMMAND}`, atMs: 0 }, ...recorded];
  const width = Math.ceil(Math.max(...lines.map(({ text }) => text.length)) * CHARACTER) + 2 * MARGIN;
  const height = lines.length * LINE + 2 * MARGIN;
  const rows = lines.map((line, index) => {
    const y = MARGIN + 14 + index * LINE;
    const delay = `animation-delay:${(line.atMs / 1_000).toFixed(2)}s`;
    const attributes = `xml:space="preserve" x="${MARGIN}" y="${y}" fill="${color(line)}" style="${delay}"`;
    return `<text ${attributes}>${escaped(line.text)}</text>`;
  });
  const last = lines.findLast(({ text }) => text !== "")?.text ?? "";
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img">`,
    `<title>A recording of ${COMMAND}. Last line: ${escaped(last)}</title>`,
    "<style>",
    "text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; }",
    "@media (prefers-reduced-motion: no-preference) { text { animation: show 0.2s both; } }",
    "@keyframes show { from { opacity: 0; } to { opacity: 1; } }",
    "</style>",
    `<rect width="${width}" height="${height}" rx="10" fill="#1b2028"/>`,
    ...rows,
    "</svg>\n",
  ].join("\n");
}

writeFileSync(join(root, "docs", "demo.svg"), draw(await record()));
