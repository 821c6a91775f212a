// Figures from samples. Ratios in one run count, not the figures: machines are noisy.

export function quantile(samples: readonly number[], q: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

/** 1 when everybody got the same, 1/n when one got everything. */
export function jain(shares: readonly number[]): number {
  const sum = shares.reduce((a, b) => a + b, 0);
  const squares = shares.reduce((a, b) => a + b * b, 0);
  return squares === 0 ? Number.NaN : (sum * sum) / (shares.length * squares);
}

export function round(value: number, digits = 3): number {
  return Number(value.toPrecision(digits));
}

/** The middle of several runs, with the lowest and highest beside it. */
export function median(values: readonly number[]): { median: number; low: number; high: number } {
  return { median: quantile(values, 0.5), low: Math.min(...values), high: Math.max(...values) };
}
