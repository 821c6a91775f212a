// Which cases of the suite the second order of etcd need not pass: those about the line, and no others.

import { expect, it } from "vitest";
import { etcdExclusiveGuarantees, etcdGuarantees } from "../../../src/stores/etcd/index.ts";
import { planFor } from "../../../src/testing/index.ts";

it("order=exclusive is asked for everything but the line", () => {
  const [fifo, exclusive] = [planFor(etcdGuarantees), planFor(etcdExclusiveGuarantees)];
  const dropped = Object.entries(exclusive.absent).filter(([id]) => fifo.absent[id] === undefined);
  expect(new Set(dropped.map(([, why]) => why))).toEqual(new Set(["order is none"]));
  expect(dropped.map(([id]) => id).sort()).toEqual([
    "api/order",
    "hygiene/closed-waiter",
    "order/abandoned-choice",
    "order/fifo",
    "order/no-overtaking",
    "order/place-kept",
    "order/silent-waiter",
    "order/stale-waiters",
    "process/killed-waiter",
    "process/stopped-waiter",
    "semaphores/large-request",
    "shared/readers-not-starved",
    "shared/writer-not-starved",
    "wakes/no-herd",
  ]);
});
