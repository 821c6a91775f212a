// Bars as SVG, by hand: one row per contender, its name, its bar and what must be read beside it. No fonts, no scripts, and colours that follow
// the reader's light or dark.

export interface Bar {
  readonly name: string;
  readonly value: number;
  readonly low?: number;
  readonly high?: number;
  /** After the value: what one must know to judge it. */
  readonly note?: string;
  readonly kind: "ours" | "peer" | "bare";
}

export interface Chart {
  readonly title: string;
  readonly unit: string;
  /** Whether more is better; said in words under the title. */
  readonly better: "more" | "less";
  readonly bars: readonly Bar[];
}

const WIDTH = 860;
const [LEFT, RIGHT] = [210, 270];
const [TOP, ROW, BAR, BOTTOM] = [58, 30, 18, 22];
/** Bars that differ by more than this are drawn by orders of magnitude. */
const FAR_APART = 40;

const ORDER: Readonly<Record<Bar["kind"], number>> = { bare: 0, ours: 1, peer: 2 };

export const STYLE: string = `
  .page { fill: #ffffff; } text { fill: #1f2328; font: 13px system-ui, sans-serif; paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
  .title { font-weight: 600; font-size: 15px; } .dim { fill: #59636e; font-size: 12px; }
  .ours { fill: #0969da; } .peer { fill: #bf8700; } .bare { fill: #818b98; }
  .spread { stroke: #1f2328; stroke-width: 1.5; } .grid { stroke: #d1d9e0; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #f0f6fc; stroke: #0d1117; } .dim { fill: #9198a1; }
    .ours { fill: #4493f8; } .peer { fill: #d29922; } .bare { fill: #656c76; }
    .spread { stroke: #f0f6fc; } .grid { stroke: #3d444d; }
  }`;

export function barChart({ title, unit, better, bars }: Chart): string {
  const values = bars.map(({ value }) => value);
  const [largest, smallest] = [Math.max(...bars.map((bar) => bar.high ?? bar.value)), Math.min(...values)];
  const logarithmic = largest / smallest > FAR_APART;
  const room = WIDTH - LEFT - RIGHT;
  const base = floorOf(smallest);
  const x = (value: number): number =>
    room *
    (logarithmic ? Math.log10(Math.max(1, value / base)) / Math.log10(largest / base) : value / largest);
  const height = TOP + ROW * bars.length + BOTTOM;
  const scale = logarithmic ? "; each line is ten times the one before" : "";
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<title>${safe(title)}</title><style>${STYLE}\n</style>`,
    `<rect class="page" width="${WIDTH}" height="${height}"/>`,
    `<text class="title" x="16" y="24">${safe(title)}</text>`,
    `<text class="dim" x="16" y="43">${safe(unit)}; ${better} is better${scale}</text>`,
    ...(logarithmic ? grid(base, largest, x, height) : []),
    ...bars
      .toSorted((a, b) => ORDER[a.kind] - ORDER[b.kind])
      .flatMap((bar, row) => drawn(bar, TOP + row * ROW, x)),
    "</svg>",
    "",
  ].join("\n");
}

/** A power of ten below the smallest, with some room for its bar. */
function floorOf(smallest: number): number {
  const below = 10 ** Math.floor(Math.log10(smallest));
  return smallest / below < 3 ? below / 10 : below;
}

function grid(base: number, largest: number, x: (value: number) => number, height: number): string[] {
  const lines: string[] = [];
  for (let value = base; value <= largest; value *= 10) {
    const at = (LEFT + x(value)).toFixed(1);
    lines.push(
      `<line class="grid" x1="${at}" x2="${at}" y1="${TOP - 4}" y2="${height - BOTTOM}"/>`,
      `<text class="dim" x="${at}" y="${height - 4}" text-anchor="middle">${short(value)}</text>`,
    );
  }
  return lines;
}

function drawn(
  { name, value, low, high, note, kind }: Bar,
  y: number,
  x: (value: number) => number,
): string[] {
  const [middle, base] = [y + BAR / 2, y + BAR - 4];
  const length = Math.max(2, x(value));
  const end = LEFT + Math.max(length, high === undefined ? 0 : x(high)) + 8;
  return [
    `<text x="${LEFT - 10}" y="${base}" text-anchor="end">${safe(name)}</text>`,
    `<rect class="${kind}" x="${LEFT}" y="${y}" width="${length.toFixed(1)}" height="${BAR}" rx="2"/>`,
    ...(low === undefined || high === undefined || low === high
      ? []
      : spread(LEFT + x(low), LEFT + x(high), middle)),
    `<text x="${end.toFixed(1)}" y="${base}">${safe(short(value))}${note === undefined ? "" : `<tspan class="dim" dx="8">${safe(note)}</tspan>`}</text>`,
  ];
}

function spread(from: number, to: number, y: number): string[] {
  const [a, b] = [from.toFixed(1), to.toFixed(1)];
  const end = (at: string): string =>
    `<line class="spread" x1="${at}" x2="${at}" y1="${y - 4}" y2="${y + 4}"/>`;
  return [`<line class="spread" x1="${a}" x2="${b}" y1="${y}" y2="${y}"/>`, end(a), end(b)];
}

export function short(value: number): string {
  if (value >= 1_000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}

function safe(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
