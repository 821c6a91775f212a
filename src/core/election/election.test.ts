// Elections in virtual time: what ends a term, what ends an election, and what a broken store does to a
// campaign.

import { expect, test } from "vitest";
import type { Lease, Leader } from "../../index.ts";
import { refusal, within, world } from "../fixture.ts";

const untilEnd = (lease: Lease): Promise<void> =>
  new Promise((resolve) => lease.signal.addEventListener("abort", () => resolve(), { once: true }));

test("a campaign outlasts a store that cannot be asked, and the leader loses its term in time (P6, P7)", async () => {
  const { system, door, locks } = world();
  const mine = locks({ ttl: 600 });
  door.faults.set("attempt", "fail");
  const terms: Lease[] = [];
  const election = mine.elect("boss", (lease) => {
    terms.push(lease);
    return untilEnd(lease);
  });
  await system.advance(3_000);
  expect(election.isLeader).toBe(false);
  door.faults.clear();
  await system.advance(3_000);
  expect(election.isLeader).toBe(true);
  door.faults.set("renew", "hang");
  door.faults.set("attempt", "hang");
  await system.advance(700);
  expect(election.isLeader).toBe(false);
  expect(terms[0]?.signal.reason).toMatchObject({ code: "ERR_LOCK_LOST" });
  door.faults.clear();
  await system.advance(3_000);
  expect(election.isLeader).toBe(true);
  expect(terms).toHaveLength(2);
  await within(system, 2_000, election.close());
  await election.closed;
});

test("resign ends the signal first and lets go when lead has returned: nobody leads meanwhile", async () => {
  const { system, locks, others } = world();
  let finish = (): void => {};
  const first = locks().elect("boss", () => new Promise<void>((resolve) => (finish = resolve)));
  await system.advance(50);
  const second = others().elect("boss", untilEnd);
  await system.advance(50);
  expect([first.isLeader, second.isLeader]).toEqual([true, false]);
  const resigning = first.resign();
  await system.advance(5_000);
  expect([first.isLeader, second.isLeader]).toEqual([false, false]);
  finish();
  await within(system, 1_000, resigning);
  await system.advance(300);
  expect(second.isLeader).toBe(true);
  for (const election of [first, second]) await within(system, 2_000, election.close());
});

test("what lead throws because it was told to stop ends the term, anything else the election", async () => {
  const { system, locks } = world();
  const mine = locks();
  let terms = 0;
  const election = mine.elect("boss", async (lease) => {
    terms += 1;
    await untilEnd(lease);
    if (terms === 1) throw lease.signal.reason;
    if (terms === 2) throw new DOMException("stopped", "AbortError");
    throw new Error("broken");
  });
  for (const expected of [1, 2, 3]) {
    await system.advance(1_000);
    expect(terms).toBe(expected);
    void election.resign();
  }
  expect((await refusal(within(system, 1_000, election.closed))).message).toBe("broken");
  expect(await mine.inspect("boss")).toBeNull();
  await election.close();
});

test("closing the locks ends elections within a bound, whatever lead does (P13)", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const signals: AbortSignal[] = [];
  const election = mine.elect("boss", (lease) => {
    signals.push(lease.signal);
    return new Promise(() => {});
  });
  await system.advance(50);
  await within(system, 3_000, mine.close({ drain: "2s" }));
  expect(signals[0]?.aborted).toBe(true);
  expect(election.isLeader).toBe(false);
  expect(await others().tryAcquire("boss")).not.toBeNull();
});

test("changes shows each leader once and ends with its signal or with the election; a signal closes the election", async () => {
  const { system, locks, others } = world();
  const [closing, looking] = [new AbortController(), new AbortController()];
  const election = locks().elect("boss", { label: "me", signal: closing.signal }, untilEnd);
  await system.advance(50);
  const observer = others().elect("boss");
  const seen: (string | null)[] = [];
  const read = async (changes: AsyncIterable<Leader | null>): Promise<void> => {
    for await (const leader of changes) seen.push(leader?.label ?? null);
  };
  const watching = read(observer.changes({ signal: looking.signal }));
  const also = read(observer.changes());
  await system.advance(2_000);
  expect(seen).toEqual(["me", "me"]);
  closing.abort();
  await within(system, 1_000, election.closed);
  await system.advance(500);
  expect(seen).toEqual(["me", "me", null, null]);
  looking.abort();
  await within(system, 100, watching);
  await observer.close();
  await within(system, 100, also);
});

test("options that mean nothing here are refused", () => {
  const { locks } = world();
  expect(() => locks().elect("boss", { wait: 5 } as object, () => {})).toThrow(/no option "wait"/);
  expect(() => locks().elect("", () => {})).toThrow(/empty/);
});
