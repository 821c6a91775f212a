// A uPlot chart in the colours of the page.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { clock } from "./words.ts";

export interface ChartProps {
  /** What the chart shows, in words, for who does not see it. */
  readonly label: string;
  readonly data: readonly (readonly (number | null)[])[];
  readonly names: readonly string[];
  /** Words below the bars; a chart over time has none. */
  readonly bars?: readonly string[];
  readonly theme: string;
}

const HEIGHT = 150;
const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5"];

export function Chart({ label, data, names, bars, theme }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shape = `${theme}\n${bars === undefined}\n${names.join("\n")}`;
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    plot.current = new uPlot(optionsOf(names, bars, element.clientWidth), dataOf(data), element);
    const resized = new ResizeObserver(() =>
      plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.current?.destroy();
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(dataOf(data)));
  return <div ref={place} class="chart" role="img" aria-label={label} />;
}

const dataOf = (data: ChartProps["data"]): uPlot.AlignedData => data as unknown as uPlot.AlignedData;

function optionsOf(
  names: readonly string[],
  bars: readonly string[] | undefined,
  width: number,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis: uPlot.Axis = {
    stroke: colour("--muted"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  const flat: uPlot.Axis = { grid: { show: false }, size: 28 };
  const label = (_plot: uPlot, places: number[]): string[] =>
    places.map((place) => (Number.isInteger(place) ? (bars?.[place] ?? "") : ""));
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [10, 12, 0, 0],
    scales: {
      x: bars === undefined ? { time: true } : { time: false, range: [-0.6, bars.length - 0.4] },
      y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.1)] },
    },
    axes: [
      bars === undefined
        ? { ...axis, ...flat, space: 80, values: (_plot, seconds) => seconds.map((at) => clock(at * 1_000)) }
        : { ...axis, ...flat, splits: bars.map((_, i) => i), values: label },
      { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6] },
    ],
    series: [
      {},
      ...names.map((name, i) => {
        const stroke = colour(COLOURS[i % COLOURS.length] as string);
        const paths = bars === undefined ? {} : { paths: uPlot.paths.bars?.({ size: [0.7, 60] }) as never };
        return {
          label: name,
          stroke,
          width: bars === undefined ? 2 : 0,
          fill: bars === undefined ? `${stroke}22` : stroke,
          points: { show: false },
          ...(bars === undefined && names.length > 2 ? { fill: "transparent" } : {}),
          ...paths,
        };
      }),
    ],
  };
}
