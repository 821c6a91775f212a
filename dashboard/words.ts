// Other people's text on the page: nothing in it may hide or turn round what stands beside it.

export { escapeControls as clean, formatDuration as time } from "../src/cli/format.ts";

export function clock(at: number): string {
  return new Date(at).toTimeString().slice(0, 8);
}
