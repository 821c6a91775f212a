// Work on many keys, cut into pieces that one script can do: no more than so many at once, and where keys are spread over
// several nodes, of one slot each.

/** Positions in a list, piece by piece. `slotOf` is null where all keys are in one place. */
export function batchesOf(
  count: number,
  most: number,
  slotOf: ((at: number) => number | undefined) | null,
): number[][] {
  const batches: number[][] = [];
  const open = new Map<number | undefined, number[]>();
  for (let at = 0; at < count; at += 1) {
    const slot = slotOf?.(at);
    let batch = open.get(slot);
    if (batch === undefined || batch.length === most) {
      batch = [];
      open.set(slot, batch);
      batches.push(batch);
    }
    batch.push(at);
  }
  return batches;
}

/** Whether a slot is on its way to another node, so that keys of it can only be reached one by one. */
export function slotIsMoving(error: unknown): boolean {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error && cause.message.startsWith("TRYAGAIN");
}
