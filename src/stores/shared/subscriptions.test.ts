import { expect, it } from "vitest";
import { Subscriptions } from "./subscriptions.ts";

const id = "a".repeat(32);

it("wakes the waiter that a message names, also in the form of holdfast 0.1, and no other", () => {
  const subscriptions = new Subscriptions();
  let woken = 0;
  const off = subscriptions.add(id, () => (woken += 1));
  subscriptions.deliver(`look ${id}`);
  subscriptions.deliver(`grant ${id} 7 10000 1000 1700000000000000`);
  for (const noise of ["", "hello", "look", "look other", `other ${id}`]) subscriptions.deliver(noise);
  expect(woken).toBe(2);
  off();
  subscriptions.deliver(`look ${id}`);
  expect(woken).toBe(2);
});

it("reports a revocation with its reason", () => {
  const subscriptions = new Subscriptions();
  const losses: unknown[] = [];
  subscriptions.onLoss((...loss) => losses.push(loss));
  subscriptions.deliver(`revoked ${id} host 7 is  replaced`);
  expect(losses).toEqual([[id, "revoked", "host 7 is  replaced"]]);
});
