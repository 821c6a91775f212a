import { expect, it } from "vitest";
import { Notifications, revocationText } from "./notifications.ts";

/** https://www.postgresql.org/docs/current/sql-notify.html */
const LONGEST_NOTIFICATION_BYTES = 8_000;

const id = "a".repeat(32);

it("wakes a subscribed waiter, and nobody by what others send", () => {
  const notifications = new Notifications();
  let woken = 0;
  const off = notifications.subscribe(id, () => (woken += 1));
  notifications.wake(id);
  for (const noise of ["", "hello", "revoked", `other ${id}`]) notifications.hear(noise);
  expect(woken).toBe(1);
  off();
  notifications.wake(id);
  expect(woken).toBe(1);
});

it("reports a revocation in a text that fits a notification", () => {
  const notifications = new Notifications();
  const losses: unknown[] = [];
  notifications.onLoss((...loss) => losses.push(loss));
  const text = revocationText(id, "€".repeat(2_000));
  expect(Buffer.byteLength(text)).toBeLessThan(LONGEST_NOTIFICATION_BYTES);
  notifications.hear(text);
  expect(losses).toEqual([[id, "revoked", "€".repeat(1_000)]]);
});
