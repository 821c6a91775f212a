// What was kept over a long run as SVG: one panel for each figure, from zero, so that what grows is seen to grow.

import { STYLE } from "../../bench/report/svg.ts";

export type Moment = Readonly<Record<string, number>>;

const PANELS: readonly (readonly [name: string, title: string])[] = [
  ["heapMb", "heap of all processes, MB"],
  ["rssMb", "resident memory of all processes, MB"],
  ["files", "open files"],
  ["resources", "resources of the event loops"],
  ["serverMb", "memory of the server, MB"],
  ["serverKeys", "keys in the server"],
  ["serverClients", "connections to the server"],
];
const [WIDTH, TOP, PANEL, LINE, LEFT, RIGHT, BOTTOM] = [860, 20, 84, 52, 70, 20, 34];

export function soakPlot(moments: readonly Moment[]): string {
  const height = TOP + PANELS.length * PANEL + BOTTOM;
  const endSeconds = moments.at(-1)?.["seconds"] ?? 1;
  const panels = PANELS.flatMap(([name, title], row) => {
    const values = moments.map((one) => one[name] ?? 0);
    const most = Math.max(...values, 1);
    const base = TOP + row * PANEL + 22 + LINE;
    const points = moments.map((one, at) => {
      const x = LEFT + ((one["seconds"] ?? 0) / endSeconds) * (WIDTH - LEFT - RIGHT);
      return `${x.toFixed(1)},${(base - ((values[at] ?? 0) / most) * LINE).toFixed(1)}`;
    });
    return [
      `<text x="16" y="${base - LINE - 8}">${title}</text>`,
      `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${base}" y2="${base}"/>`,
      `<text class="dim" x="${LEFT - 8}" y="${base}" text-anchor="end">0</text>`,
      `<text class="dim" x="${LEFT - 8}" y="${base - LINE + 10}" text-anchor="end">${most}</text>`,
      `<polyline class="line" points="${points.join(" ")}"/>`,
    ];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<title>what is kept over ${Math.round(endSeconds / 60)} minutes</title><style>${STYLE}`,
    "  .line { fill: none; stroke: #0969da; stroke-width: 2; }",
    "</style>",
    `<rect class="page" width="${WIDTH}" height="${height}"/>`,
    ...panels,
    ...ticks(endSeconds, height - 12),
    "</svg>",
    "",
  ].join("\n");
}

/** Where in the run one is, below the lowest panel. */
function ticks(endSeconds: number, y: number): string[] {
  return [0, 0.5, 1].map((share) => {
    const x = LEFT + share * (WIDTH - LEFT - RIGHT);
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    const minutes = Number(((share * endSeconds) / 60).toFixed(1));
    return `<text class="dim" x="${x}" y="${y}" text-anchor="${anchor}">${minutes} min</text>`;
  });
}
