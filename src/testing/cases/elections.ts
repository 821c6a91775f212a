// One leader at a time, over many terms and when leaders die; observers see who it is.

import assert from "node:assert/strict";
import type { Election, Lease, Locks } from "../../index.ts";
import type { ApiCase, ProcessCase } from "../case.ts";
import { rejectsWith, assertLarger, required } from "../checks.ts";
import { waitFor, handled, sleep } from "../io.ts";
import { severalProcesses } from "../requirements.ts";
import { checkSections } from "../critical-section-log.ts";

const TERMS = 100;

/** Stays in office until it is told to go. */
function untilEnd(lease: Lease): Promise<void> {
  return new Promise((resolve) => lease.signal.addEventListener("abort", () => resolve(), { once: true }));
}

export const electionCases: readonly ApiCase[] = [
  {
    id: "elections/terms",
    sentence: `over ${TERMS} terms of three candidates there are never two leaders, and every term has a larger fence`,
    promises: ["P1", "P3", "P11"],
    level: "api",
    needs: [],
    async run(ctx) {
      const all = [await ctx.locks(), await ctx.locks(), await ctx.locks()];
      const name = ctx.key("leader");
      const log: string[] = [];
      /** Who lost a term to a stall of the machine: such a term has no end. */
      const lost = new Set<string>();
      let terms = 0;
      const campaign = (locks: Locks, who: number): Election =>
        locks.elect(name, async (lease) => {
          log.push(`begin ${lease.fence} ${who}`);
          terms += 1;
          await sleep(terms % 10 === 0 ? 3 : 0);
          if (lease.held) log.push(`end ${lease.fence} ${who}`);
          else lost.add(String(who));
        });
      const elections = all.map(campaign);
      await waitFor("the last term", () => terms >= TERMS);
      await Promise.all(elections.map((election) => election.close()));
      const { finished, unfinished } = checkSections(log, lost);
      assert.ok(finished + unfinished >= TERMS, "terms are missing");
      const isExcused = ctx.stalledMs > ctx.guarantees.claimMs / 2;
      assert.ok(unfinished === 0 || isExcused, `${unfinished} terms were lost`);
      const led = new Set(log.map((line) => line.split(" ")[2])).size;
      if (ctx.guarantees.order === "fifo") assert.equal(led, 3, `only ${led} ever led`);
      // A candidate whose attempt was under way when it was closed may be granted once more, and gives
      // the key back after its caller has been told.
      const [first] = all as [Locks];
      let free = 0;
      await waitFor("the end of all candidates", async () => {
        await sleep(20);
        free = (await first.inspect(name)) === null ? free + 1 : 0;
        return free === 5;
      });
    },
  },
  {
    id: "elections/resign",
    sentence: "whoever resigns is followed by the next one, and observers see both",
    promises: ["P3", "P11"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two, three] = [
        await ctx.locks({ label: "one" }),
        await ctx.locks({ label: "two" }),
        await ctx.locks(),
      ];
      const name = ctx.key("leader");
      const observer = three.elect(name);
      assert.equal(await observer.leader(), null);
      const seen: (string | null)[] = [];
      const watching = handled(
        (async () => {
          for await (const leader of observer.changes()) seen.push(leader?.label ?? null);
        })(),
      );
      const first = one.elect(name, untilEnd);
      await waitFor("the first leader", () => first.isLeader);
      const term = required(await observer.leader(), "the leader").fence;
      const second = two.elect(name, untilEnd);
      await sleep(100);
      assert.equal(second.isLeader, false);
      await waitFor("the sight of the first", () => seen.includes("one"));
      await first.resign();
      assert.equal(first.isLeader, false);
      const soonMs = ctx.guarantees.pollMs + ctx.slackMs;
      await waitFor("the second leader", () => second.isLeader, soonMs);
      assertLarger(term, required(await observer.leader(), "the second leader").fence);
      await waitFor("the sight of the second", () => seen.includes("two"));
      await second.close();
      await waitFor("the return of the first", () => first.isLeader, soonMs);
      await Promise.all([first.close(), observer.close()]);
      await Promise.all([first.closed, second.closed, observer.closed, watching]);
      assert.equal(await three.inspect(name), null);
    },
  },
  {
    id: "elections/ends",
    sentence: "a lead that throws ends the election with its error; one that loses its term campaigns again",
    promises: ["P6", "P17"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const [name, other] = [ctx.key("leader"), ctx.key("leader")];
      const broken = one.elect(name, () => Promise.reject(new Error("out of order")));
      await assert.rejects(broken.closed, /out of order/);
      await broken.close();
      const fences: bigint[] = [];
      const election = one.elect(other, { ttl: 2_000, label: "the leader" }, async (lease) => {
        fences.push(lease.fence);
        await untilEnd(lease);
        throw lease.signal.reason;
      });
      await waitFor("the first term", () => fences.length === 1);
      assert.equal((await election.leader())?.label, "the leader");
      await two.revoke(other, { reason: "too long in office", force: true });
      await waitFor("the second term", () => fences.length === 2);
      assertLarger(required(fences[0], "a term"), required(fences[1], "a term"));
      await one.close();
      await election.closed;
      assert.equal(election.isLeader, false);
      await rejectsWith("ERR_LOCK_ABORTED", (async () => one.elect(name, untilEnd))());
    },
  },
];

export const electionProcessCases: readonly ProcessCase[] = [
  {
    id: "process/leader-killed",
    sentence: "a leader that is killed is followed within the declared bound",
    promises: ["P3", "P10"],
    level: "process",
    needs: [severalProcesses],
    async run(ctx) {
      const [ttl, graceMs] = [2_000, 200];
      const child = await ctx.child();
      const locks = await ctx.locks();
      const name = ctx.key("leader");
      const { fence } = await child.call("elect", { name, options: { ttl } });
      let term = 0n;
      const election = locks.elect(name, { ttl }, (lease) => {
        term = lease.fence;
        return untilEnd(lease);
      });
      await sleep(100);
      assert.equal(election.isLeader, false);
      const killedAtMs = ctx.nowMs();
      await child.kill();
      await waitFor("the next leader", () => election.isLeader);
      const tookMs = ctx.nowMs() - killedAtMs;
      const { freeAfterCrashMs, pollMs } = ctx.guarantees;
      const boundMs = (freeAfterCrashMs === "lease" ? ttl + graceMs : freeAfterCrashMs) + pollMs;
      assert.ok(
        tookMs <= boundMs + ctx.slackMs,
        `the next leader came after ${tookMs} ms, bound ${boundMs} ms`,
      );
      assertLarger(BigInt(fence), term);
      await election.close();
    },
  },
];
