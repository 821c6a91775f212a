// Compares the clocks of the store's servers with this machine's at each renewal. The server's clock ends
// a lease in the store, so a jump by more than the grace ends leases early or late. This file only
// reports jumps: the window of a lease does not depend on them.

import { ServerClock } from "./server-clock.ts";
import type { ClockJump, Finding, RenewAnswer } from "../store.ts";
import type { Instant } from "../system.ts";

/** The smallest jump to report for any grace, because the boot clock of this machine may be coarse. */
const LEAST_JUMP_MS = 50;

export class ServerClocks {
  readonly #clocks = new Map<string, ServerClock>();
  readonly #jumps = new Map<string, number>();
  readonly #report: (jump: ClockJump) => void;

  constructor(report: (jump: ClockJump) => void) {
    this.#report = report;
  }

  /** Adds the readings of one call. */
  read(answers: readonly RenewAnswer[], graceMs: number, sentAt: Instant, receivedAt: Instant): void {
    const times = new Map<string, number>();
    for (const { clocks = [] } of answers) for (const { node, serverMs } of clocks) times.set(node, serverMs);
    const moments = { sentMs: sentAt.bootMs, receivedMs: receivedAt.bootMs };
    for (const [node, serverMs] of times) {
      const reading = { serverMs, ...moments };
      const clock = this.#clocks.get(node) ?? new ServerClock();
      this.#clocks.set(node, clock);
      const movedMs = clock.movedMs(reading, Math.max(LEAST_JUMP_MS, graceMs));
      clock.take(reading);
      if (movedMs !== 0) this.jumped({ node, jumpMs: Math.round(movedMs) });
    }
  }

  jumped(jump: ClockJump): void {
    this.#jumps.set(jump.node, jump.jumpMs);
    this.#report(jump);
  }

  /** The last jump of each server, for `check()`. */
  findings(): Finding[] {
    return [...this.#jumps].map(([node, jumpMs]) => ({
      id: "clock",
      level: "warning",
      what: `the clock of ${node} jumped by ${jumpMs} ms while this process held leases there`,
      why: "leases end by the clock of the server: where it jumps by more than the grace, two can hold",
      fix: "let NTP slew the clock of the server instead of setting it, and check fences where it matters",
    }));
  }
}
