// The leases of one opened store: one per distinct length, shared by all that this process holds or waits for with it. Everything
// here is counted from the moment when a request to the server was *sent*: the server cannot have started earlier, so what
// is believed here ends no later than what the server believes (P2).

import type { Instant, System } from "../../core/system.ts";
import { elapsedMs } from "../../core/lease/validity-window.ts";
import { leaseIsGone } from "./errors.ts";
import type { EtcdPort, Patience } from "./port.ts";

/** Ids of our own choosing fit a double: 52 random bits. */
const ID_DIGITS = 13;
/** After so many marks of ended requests a lease is used for nothing new, so that it ends one day and the marks with it. */
const MOST_TOMBS = 100;

export interface EtcdLease {
  readonly id: number;
  /** What the server says it keeps it for, from every sign of life on. */
  lifeMs: number;
  sentAt: Instant;
  /** How many marks of ended requests hang on it. */
  tombs: number;
  gone: boolean;
  /** A keep-alive that is under way. */
  beat: { readonly sentAt: Instant; readonly answer: Promise<void> } | null;
}

/** A lease outlives the ttl and the grace by a tenth of the ttl, so that not every acquire has to renew it first. */
export function secondsFor(ttlMs: number, graceMs: number): number {
  return Math.ceil((ttlMs + graceMs + Math.min(1_000, Math.max(50, ttlMs / 10))) / 1_000);
}

export class Leases {
  readonly #port: EtcdPort;
  readonly #system: System;
  readonly #bySeconds = new Map<number, EtcdLease>();
  readonly #granting = new Map<number, Promise<EtcdLease>>();
  readonly #all = new Set<EtcdLease>();
  /** Taken out of `#all` when their time was over. A keep-alive may show that the server still has one. */
  readonly #expired = new WeakSet<EtcdLease>();

  constructor(port: EtcdPort, system: System) {
    this.#port = port;
    this.#system = system;
  }

  /** The lease of this length, a new one where there is none that is certainly alive. */
  get(seconds: number, io: Patience): Promise<EtcdLease> {
    const known = this.#bySeconds.get(seconds);
    if (known !== undefined && this.#usable(known)) return Promise.resolve(known);
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

  /** A lease that nobody shares and that `close` leaves alone. */
  async grant(seconds: number, io: Patience): Promise<EtcdLease> {
    const id = Number.parseInt(this.#system.randomId().slice(0, ID_DIGITS), 16) || 1;
    const sentAt = this.#system.now();
    const lifeMs = (await this.#port.grantLease(id, seconds, io)) * 1_000;
    return { id, lifeMs, sentAt, tombs: 0, gone: false, beat: null };
  }

  /** One of ours that is not known to have ended. */
  byId(id: number): EtcdLease | null {
    return [...this.#all].find((lease) => lease.id === id) ?? null;
  }

  /** For how long after `from` the server certainly keeps it. */
  leftMs(lease: EtcdLease, from: Instant): number {
    return lease.gone ? 0 : lease.lifeMs - Math.max(0, elapsedMs(lease.sentAt, from, "store"));
  }

  /**
   * For how long after `from` a holder may believe in it. Grace covers clocks of different rates, so a lease
   * that is shorter than the ttl, such as that of a waiter, needs as much less of it.
   */
  validMs(lease: EtcdLease, from: Instant, ttlMs: number, graceMs: number): number {
    const graceOfLease = Math.min(graceMs, (lease.lifeMs * graceMs) / ttlMs);
    return Math.min(ttlMs, this.leftMs(lease, from) - graceOfLease);
  }

  /** One keep-alive at a time and lease. Whoever asks for one that was sent after `since` gets no older one. */
  async beat(lease: EtcdLease, since: Instant, io: Patience): Promise<void> {
    const underWay = lease.beat;
    if (underWay !== null && underWay.sentAt.monoMs >= since.monoMs) return underWay.answer;
    const sentAt = this.#system.now();
    const answer = this.#beat(lease, sentAt, io);
    const beat = { sentAt, answer };
    lease.beat = beat;
    try {
      await answer;
    } finally {
      if (lease.beat === beat) lease.beat = null;
    }
  }

  async #beat(lease: EtcdLease, sentAt: Instant, io: Patience): Promise<void> {
    const seconds = await this.#port.keepAlive(lease.id, io);
    if (seconds === 0) return this.forget(lease);
    // Two may be under way at once, on two connections: only the later one counts.
    if (sentAt.monoMs < lease.sentAt.monoMs) return;
    lease.sentAt = sentAt;
    lease.lifeMs = seconds * 1_000;
    if (this.#expired.delete(lease)) this.#all.add(lease);
  }

  /** It has ended, or may have: nothing new is hung on it. */
  forget(lease: EtcdLease): void {
    lease.gone = true;
    this.#all.delete(lease);
    this.#unlist(lease);
  }

  /** Those that nobody renews end by themselves, and nobody is told. */
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

  /** Ends them all, and with them everything that hangs on them. */
  async revokeAll(io: Patience): Promise<void> {
    const all = [...this.#all].filter((lease) => this.leftMs(lease, this.#system.now()) > 0);
    await Promise.all(all.map((lease) => this.revoke(lease, io)));
  }

  async revoke(lease: EtcdLease, io: Patience): Promise<void> {
    try {
      await this.#port.revokeLease(lease.id, io);
    } catch (error) {
      if (!leaseIsGone(error)) throw error;
    }
    this.forget(lease);
  }

  #usable(lease: EtcdLease): boolean {
    if (this.leftMs(lease, this.#system.now()) > 0 && lease.tombs < MOST_TOMBS) return true;
    // It may still have holders, who go on renewing it.
    this.#unlist(lease);
    return false;
  }
}
