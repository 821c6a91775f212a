// The leases of one open store: one per distinct length, shared by everything that this process holds or
// waits for with that length. All times count from when a request to the server was *sent*. The server cannot
// have started earlier, so this process stops believing in a lease before the server ends it (P2).

import { elapsedMs } from "../../core/lease/validity-window.ts";
import type { Instant, System } from "../../core/system.ts";
import type { EtcdClient } from "./cluster/cluster.ts";
import type { CallSignal } from "./cluster/member.ts";
import { isLeaseGone } from "./errors.ts";

/** Ids of our own choice fit a double: 52 random bits. */
const ID_DIGITS = 13;
/**
 * A lease with so many tombstones gets no new keys, so that it expires one day and the tombstones with it.
 */
const MOST_TOMBSTONES = 100;

export interface EtcdLease {
  readonly id: number;
  /** How long the server keeps it after each keep-alive. */
  lifeMs: number;
  sentAt: Instant;
  tombstones: number;
  isGone: boolean;
  /** A keep-alive that is under way. */
  renewal: { readonly sentAt: Instant; readonly answer: Promise<void> } | null;
}

/** A lease outlives ttl and grace by a tenth of the ttl, so that not every acquire has to renew it first. */
export function secondsFor(ttlMs: number, graceMs: number): number {
  return Math.ceil((ttlMs + graceMs + Math.min(1_000, Math.max(50, ttlMs / 10))) / 1_000);
}

export class Leases {
  readonly #client: EtcdClient;
  readonly #system: System;
  readonly #bySeconds = new Map<number, EtcdLease>();
  readonly #granting = new Map<number, Promise<EtcdLease>>();
  readonly #all = new Set<EtcdLease>();
  /**
   * No longer in `#all`, because their time was over. A keep-alive may show that the server still has one.
   */
  readonly #expired = new WeakSet<EtcdLease>();

  constructor(client: EtcdClient, system: System) {
    this.#client = client;
    this.#system = system;
  }

  /** The lease of this length: one that is certainly alive, or a new one. */
  get(seconds: number, io: CallSignal): Promise<EtcdLease> {
    const known = this.#bySeconds.get(seconds);
    if (known !== undefined && this.#isUsable(known)) return Promise.resolve(known);
    const underWay = this.#granting.get(seconds);
    if (underWay !== undefined) return underWay;
    const granting = this.grant(seconds, io)
      .then((lease) => {
        this.#forgetExpired();
        this.#bySeconds.set(seconds, lease);
        this.#all.add(lease);
        return lease;
      })
      .finally(() => this.#granting.delete(seconds));
    this.#granting.set(seconds, granting);
    return granting;
  }

  /** A lease that is not shared. `close` does not end it. */
  async grant(seconds: number, io: CallSignal): Promise<EtcdLease> {
    const id = Number.parseInt(this.#system.randomId().slice(0, ID_DIGITS), 16) || 1;
    const sentAt = this.#system.now();
    const lifeMs = (await this.#client.grantLease(id, seconds, io)) * 1_000;
    return { id, lifeMs, sentAt, tombstones: 0, isGone: false, renewal: null };
  }

  /** A shared lease that is not known to have ended. */
  byId(id: number): EtcdLease | null {
    return [...this.#all].find((lease) => lease.id === id) ?? null;
  }

  /** How long after `from` the server certainly keeps it. */
  leftMs(lease: EtcdLease, from: Instant): number {
    return lease.isGone ? 0 : lease.lifeMs - Math.max(0, elapsedMs(lease.sentAt, from, "store"));
  }

  /**
   * How long after `from` a holder may believe in it. Grace covers clocks of different rates, so a lease that
   * is shorter than the ttl, such as that of a waiter, needs proportionally less grace.
   */
  validMs(lease: EtcdLease, from: Instant, ttlMs: number, graceMs: number): number {
    const graceOfLease = Math.min(graceMs, (lease.lifeMs * graceMs) / ttlMs);
    return Math.min(ttlMs, this.leftMs(lease, from) - graceOfLease);
  }

  /** Sends a keep-alive, or shares one that was sent at or after `since`. */
  async keepAlive(lease: EtcdLease, since: Instant, io: CallSignal): Promise<void> {
    const underWay = lease.renewal;
    if (underWay !== null && underWay.sentAt.monoMs >= since.monoMs) return underWay.answer;
    const sentAt = this.#system.now();
    const renewal = { sentAt, answer: this.#keepAlive(lease, sentAt, io) };
    lease.renewal = renewal;
    try {
      await renewal.answer;
    } finally {
      if (lease.renewal === renewal) lease.renewal = null;
    }
  }

  async #keepAlive(lease: EtcdLease, sentAt: Instant, io: CallSignal): Promise<void> {
    const seconds = await this.#client.keepAlive(lease.id, io);
    if (seconds === 0) return this.forget(lease);
    // Two may be under way at once, on two connections: only the later one counts.
    if (sentAt.monoMs < lease.sentAt.monoMs) return;
    lease.sentAt = sentAt;
    lease.lifeMs = seconds * 1_000;
    if (this.#expired.delete(lease)) this.#all.add(lease);
  }

  /** It has ended, or may have: nothing new gets it. */
  forget(lease: EtcdLease): void {
    lease.isGone = true;
    this.#all.delete(lease);
    this.#unlist(lease);
  }

  #forgetExpired(): void {
    const now = this.#system.now();
    for (const lease of this.#all) {
      if (this.leftMs(lease, now) > 0) continue;
      this.#all.delete(lease);
      this.#expired.add(lease);
      this.#unlist(lease);
    }
  }

  #unlist(lease: EtcdLease): void {
    for (const [seconds, one] of this.#bySeconds) if (one === lease) this.#bySeconds.delete(seconds);
  }

  /** Ends all shared leases, and with them all keys of this process that have no lease of their own. */
  async revokeAll(io: CallSignal): Promise<void> {
    const all = [...this.#all].filter((lease) => this.leftMs(lease, this.#system.now()) > 0);
    await Promise.all(all.map((lease) => this.revoke(lease, io)));
  }

  async revoke(lease: EtcdLease, io: CallSignal): Promise<void> {
    try {
      await this.#client.revokeLease(lease.id, io);
    } catch (error) {
      if (!isLeaseGone(error)) throw error;
    }
    this.forget(lease);
  }

  #isUsable(lease: EtcdLease): boolean {
    if (this.leftMs(lease, this.#system.now()) > 0 && lease.tombstones < MOST_TOMBSTONES) return true;
    // It may still have holders, who go on renewing it.
    this.#unlist(lease);
    return false;
  }
}
