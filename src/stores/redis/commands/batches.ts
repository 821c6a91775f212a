// Splits work on many keys into batches that one script can do: of limited size and, in a Cluster, of one
// slot each.

/** Positions in a list, batch by batch. `slotOf` is null unless this is a Cluster. */
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

/** Whether a slot is moving to another node, so that its keys can only be reached one by one. */
export function slotIsMoving(error: unknown): boolean {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error && cause.message.startsWith("TRYAGAIN");
}
