// Checks members whose calls take long. A call may hang although its member answers, because whatever a
// member forwards to a leader that is gone is lost silently. So the watchdog asks the member for the term of
// its leader:
// - No answer, or no leader: the store uses another member.
// - Another term than before: older calls are lost.
// Either way their callers get an error at once, not at their timeout.

import type { System } from "../../../core/system.ts";
import type { CallSignal, Member } from "./member.ts";

/** A call that takes longer than this is checked. */
const SLOW_MS = 200;
/** A member that does not answer by itself within this time is frozen. */
const FROZEN_MS = 500;

/** The term of the leader that a member knows, or why it reported none. */
export type ProbeResult = bigint | "silent" | "no leader" | "rejected";

export interface WatchedCluster {
  current(): Member | null;
  probe(member: Member, io: CallSignal): Promise<ProbeResult>;
  drop(member: Member): void;
}

export class MemberWatchdog {
  readonly #system: System;
  readonly #cluster: WatchedCluster;
  #isWatching = false;
  #checked: Member | null = null;

  constructor(system: System, cluster: WatchedCluster) {
    this.#system = system;
    this.#cluster = cluster;
  }

  /** Calls are under way. There is one timer, however many calls there are. */
  start(): void {
    if (this.#isWatching) return;
    this.#isWatching = true;
    this.#system.after(SLOW_MS, () => void this.#watch(), "background");
  }

  async #watch(): Promise<void> {
    const member = this.#cluster.current();
    const sinceMs = member?.pendingSinceMs ?? null;
    if (member !== null && sinceMs !== null && this.#system.monoMs() - sinceMs >= SLOW_MS)
      await this.check(member);
    this.#isWatching = false;
    if (member !== null && member.pendingSinceMs !== null) this.start();
  }

  /** A call was slow or failed. That may be the member's fault, or that of a busy machine. */
  async check(member: Member): Promise<void> {
    if (this.#checked === member || member.isDropped) return;
    this.#checked = member;
    try {
      await this.#check(member);
    } finally {
      this.#checked = null;
    }
  }

  async #check(member: Member): Promise<void> {
    const askedAtMs = this.#system.monoMs();
    const timeout = new AbortController();
    const cancel = this.#system.after(FROZEN_MS, () => timeout.abort(), "background");
    const result = await this.#cluster.probe(member, timeout);
    cancel();
    if (result === "silent" || result === "no leader") {
      this.#cluster.drop(member);
      member.giveUp(askedAtMs, `${member.endpoint} ${result === "silent" ? "is frozen" : "knows no leader"}`);
    } else if (result !== "rejected" && result !== member.term) {
      member.term = result;
      member.giveUp(askedAtMs, "the leader of the cluster has changed");
    }
  }
}
