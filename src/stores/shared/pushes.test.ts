import { expect, it } from "vitest";
import { Pushes, sayWake } from "./pushes.ts";

/** https://www.postgresql.org/docs/current/sql-notify.html */
const LONGEST_NOTIFICATION_BYTES = 8_000;

const wake = { id: "a".repeat(32), key: "k", proc: "p" };

it("wakes a waiter, also by the words of the version before, and nobody else", () => {
  const pushes = new Pushes();
  let woken = 0;
  const off = pushes.add(wake.id, () => (woken += 1));
  pushes.hear(sayWake(wake));
  pushes.hear(`grant ${wake.id} 7 10000 1000 1700000000000000`);
  for (const noise of ["", "hello", "look", "look other", `other ${wake.id}`]) pushes.hear(noise);
  expect(woken).toBe(2);
  off();
  pushes.hear(sayWake(wake));
  expect(woken).toBe(2);
});

it("tells of a revocation in words that fit a notification", () => {
  const pushes = new Pushes();
  const losses: unknown[] = [];
  pushes.onLoss((...loss) => losses.push(loss));
  const words = sayWake({ ...wake, revoked: "€".repeat(2_000) });
  expect(Buffer.byteLength(words)).toBeLessThan(LONGEST_NOTIFICATION_BYTES);
  pushes.hear(words);
  expect(losses).toEqual([[wake.id, "revoked", "€".repeat(1_000)]]);
});
