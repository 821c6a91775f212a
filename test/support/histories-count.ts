// How many random histories or damaged contents a test tries. `npm test` tries the same ones in every run,
// so that it is green or red for a reason in the change. HOLDFAST_HISTORIES=2000 tries as many others; `npm
// run test:all` sets it.

const SEED = 7;
const wanted: string | undefined = process.env["HOLDFAST_HISTORIES"];

export function runs(usual: number): { readonly numRuns: number; readonly seed?: number } {
  return wanted === undefined ? { numRuns: usual, seed: SEED } : { numRuns: Number(wanted) };
}
