// The port over @grpc/grpc-js. One connection at a time, to the member that answered first and knows a leader; when a call
// fails in a way that speaks against its member, the connection is dropped and the members are asked anew.

import type * as grpcModule from "@grpc/grpc-js";
import type { ChannelCredentials, Metadata } from "@grpc/grpc-js";
import type { System } from "../../core/system.ts";
import { isLeaderless, noMemberError, wasRefused } from "./errors.ts";
import { firstOf } from "./first-of.ts";
import { Lookout, type Pulse } from "./lookout.ts";
import { CHANNEL, GivenUp, Member, type Method } from "./member.ts";
import * as m from "./messages.ts";
import { silent } from "./roll-call.ts";
import type { EtcdPort, Patience, ServerFacts, WatchStream } from "./port.ts";
import { unreferenced } from "./unreferenced.ts";
import type { Loose } from "./wire.ts";

export type Grpc = Pick<typeof grpcModule, "Client" | "Metadata" | "credentials">;

/** What gRPC's errors say. */
interface Failure {
  readonly code?: number;
  readonly details?: string;
}

export interface ClusterOptions {
  readonly endpoints: readonly string[];
  readonly tls: {
    readonly ca?: string | Buffer;
    readonly cert?: string | Buffer;
    readonly key?: string | Buffer;
  } | null;
  readonly user: { readonly name: string; readonly password: string } | null;
  /** A key that the user may read. Members are asked for it to see whether they answer. */
  readonly probe: string;
}

const KV = "/etcdserverpb.KV/";
const LEASE = "/etcdserverpb.Lease/";
const MAINTENANCE = "/etcdserverpb.Maintenance/";

const METHODS = {
  txn: { path: `${KV}Txn`, request: m.txn, answer: m.txnAnswer },
  range: { path: `${KV}Range`, request: m.range, answer: m.rangeAnswer },
  grant: { path: `${LEASE}LeaseGrant`, request: m.leaseGrant, answer: m.leaseAnswer },
  revoke: { path: `${LEASE}LeaseRevoke`, request: m.leaseId, answer: m.nothing },
  life: { path: `${LEASE}LeaseTimeToLive`, request: m.leaseId, answer: m.leaseLife },
  status: { path: `${MAINTENANCE}Status`, request: m.nothing, answer: m.status },
  alarms: { path: `${MAINTENANCE}Alarm`, request: m.nothing, answer: m.alarms },
  members: { path: "/etcdserverpb.Cluster/MemberList", request: m.nothing, answer: m.members },
  login: { path: "/etcdserverpb.Auth/Authenticate", request: m.credentials, answer: m.token },
} as const;

/** gRPC's codes that speak against the member which gave them. */
const UNKNOWN = 2;
const DEADLINE = 4;
const INTERNAL = 13;
const UNAVAILABLE = 14;
const UNAUTHENTICATED = 16;
const PERMISSION_DENIED = 7;
const BAD_MEMBER: ReadonlySet<number> = new Set([UNKNOWN, DEADLINE, INTERNAL, UNAVAILABLE]);

export class Cluster implements EtcdPort {
  readonly #grpc: Grpc;
  readonly #system: System;
  readonly #options: ClusterOptions;
  readonly #credentials: ChannelCredentials;
  readonly #lookout: Lookout;
  #current: Member | null = null;
  #choosing: Promise<Member> | null = null;
  /** A login that is under way. */
  #login: Promise<void> | null = null;
  #token: string | null = null;
  #metadata: Metadata;
  #closed = false;

  constructor(grpc: Grpc, options: ClusterOptions, system: System) {
    this.#grpc = grpc;
    this.#system = system;
    this.#options = options;
    const { tls } = options;
    this.#credentials = unreferenced(
      tls === null
        ? grpc.credentials.createInsecure()
        : grpc.credentials.createSsl(bytes(tls.ca), bytes(tls.key), bytes(tls.cert)),
    );
    this.#metadata = this.#newMetadata(null);
    this.#lookout = new Lookout(system, {
      current: () => this.#current,
      pulseOf: (member, io) => this.#pulseOf(member, io),
      drop: (member) => this.#drop(member),
    });
  }

  txn(txn: m.LooseTxn, io: Patience): Promise<m.TxnAnswer> {
    return this.#ask(METHODS.txn, txn, io);
  }

  range(range: Loose<m.Range>, io: Patience): Promise<m.RangeAnswer> {
    return this.#ask(METHODS.range, range, io);
  }

  async grantLease(id: number, seconds: number, io: Patience): Promise<number> {
    const { ttl, error } = await this.#ask(METHODS.grant, { id, ttl: seconds }, io);
    if (error !== "") throw new Error(error);
    return ttl;
  }

  async keepAlive(id: number, io: Patience): Promise<number> {
    const member = this.#current ?? (await this.#choose(io));
    await this.#signedIn(member, io);
    this.#lookout.watchOver();
    try {
      return await member.keepAlive(id, () => this.#metadata, io);
    } catch (error) {
      throw this.#judged(member, error);
    }
  }

  async revokeLease(id: number, io: Patience): Promise<void> {
    await this.#ask(METHODS.revoke, { id }, io);
  }

  leaseLife(id: number, io: Patience): Promise<m.LeaseLife> {
    return this.#ask(METHODS.life, { id }, io);
  }

  async version(io: Patience): Promise<string | null> {
    return (await this.#unlessDenied(this.#ask(METHODS.status, {}, io)))?.version ?? null;
  }

  async facts(io: Patience): Promise<ServerFacts> {
    const [status, alarms, members, missing] = await Promise.all([
      this.#unlessDenied(this.#ask(METHODS.status, {}, io)),
      this.#unlessDenied(this.#ask(METHODS.alarms, {}, io)),
      this.#unlessDenied(this.#ask(METHODS.members, {}, io)),
      silent(this.#options.endpoints, this.#system, (endpoint, how) => this.#call(endpoint, how)),
    ]);
    return {
      version: status?.version ?? null,
      dbSize: status?.dbSize ?? null,
      quota: status?.quota ?? 0,
      alarms: alarms?.alarms.map(({ alarm }) => alarm) ?? null,
      members: members?.members.length ?? null,
      silent: missing,
    };
  }

  /** Null where this user may not ask. Since 3.5.28 only root may ask for the status. */
  #unlessDenied<T>(asked: Promise<T>): Promise<T | null> {
    return asked.catch((error: unknown) => {
      if ((error as Failure).code === PERMISSION_DENIED) return null;
      throw error;
    });
  }

  watch(hear: (answer: m.WatchAnswer) => void, ended: () => void): WatchStream {
    const member = this.#current;
    // Whoever watches has just asked something, so there is a member unless it failed in this very moment.
    if (member === null) {
      queueMicrotask(ended);
      return { send: () => {}, close: () => {} };
    }
    return member.watch(this.#metadata, hear, ended);
  }

  rest(): void {
    this.#current?.rest();
  }

  close(): void {
    this.#closed = true;
    this.#current?.drop();
    this.#current = null;
  }

  async #ask<Q, A>(method: Method<Q, A>, request: Loose<Q>, io: Patience): Promise<A> {
    const member = this.#current ?? (await this.#choose(io));
    await this.#signedIn(member, io);
    this.#lookout.watchOver();
    try {
      return await member.call(method, request, this.#metadata, io);
    } catch (error) {
      if (!this.#signedOut(error)) throw this.#judged(member, error);
    }
    // Refused before it was looked at, because the token is old: once more with a new one.
    await this.#signedIn(member, io);
    try {
      return await member.call(method, request, this.#metadata, io);
    } catch (error) {
      throw this.#judged(member, error);
    }
  }

  /** What a failure says of its member. Gives the error itself. */
  #judged(member: Member, error: unknown): unknown {
    const { code = 0, details = "" } = error as Failure;
    // A caller's patience may be shorter than a busy machine is quick, and a server's own words are no sign of its end.
    if (error instanceof GivenUp || details.startsWith("etcdserver:")) void this.#lookout.question(member);
    else if (BAD_MEMBER.has(code)) this.#drop(member);
    return error;
  }

  async #pulseOf(member: Member, io: Patience): Promise<Pulse> {
    try {
      return await this.#termOf(member, io);
    } catch (error) {
      if (isLeaderless(error)) return "no leader";
      return wasRefused(error) ? "refused" : "silent";
    }
  }

  /** The term of the leader that this member knows of. The member answers without asking any other. */
  async #termOf(member: Member, io: Patience): Promise<bigint> {
    const probe = { key: this.#options.probe, serializable: true, countOnly: true };
    const { header } = await member.call(METHODS.range, probe, this.#metadata, io);
    return header?.term ?? 0n;
  }

  #drop(member: Member): void {
    if (this.#current === member) this.#current = null;
    member.drop();
  }

  /** One member after the other is asked, the next one without waiting for long: a frozen one costs little. */
  #choose(io: Patience): Promise<Member> {
    this.#choosing ??= this.#race(io).finally(() => {
      this.#choosing = null;
    });
    return this.#choosing;
  }

  async #race(io: Patience): Promise<Member> {
    if (io.signal.aborted) throw new GivenUp("it was given up before it was sent");
    const { endpoints } = this.#options;
    const over = this.#system.abortController?.() ?? new AbortController();
    const giveUp = (): void => over.abort();
    io.signal.addEventListener("abort", giveUp, { once: true });
    // Clients begin with different members, so that they share the work.
    const first = Math.floor(this.#system.random() * endpoints.length);
    const members = endpoints.map((_one, at) =>
      this.#connect(endpoints[(first + at) % endpoints.length] as string),
    );
    try {
      const chosen = await firstOf(
        members,
        (member) => this.#greet(member, over),
        this.#system,
        over.signal,
        (failures) => noMemberError(endpoints, failures),
      );
      if (this.#closed) throw new Error("the store is closed");
      this.#current = chosen;
      return chosen;
    } finally {
      io.signal.removeEventListener("abort", giveUp);
      over.abort();
      for (const member of members) if (member !== this.#current) member.drop();
    }
  }

  async #greet(member: Member, io: Patience): Promise<Member> {
    try {
      // By this very member: a login that is under way may wait for one that stands still.
      if (this.#options.user !== null && this.#token === null) await this.#logIn(member, io);
      member.term = await this.#termOf(member, io);
    } catch (error) {
      if (isLeaderless(error)) throw new Error(`${member.endpoint} knows no leader`, { cause: error });
      // It answers. What it does not like about the user is told by the next call.
      if (!wasRefused(error)) throw error;
    }
    return member;
  }

  /** On a connection of its own. */
  async #call(endpoint: string, io: Patience): Promise<void> {
    const member = this.#connect(endpoint);
    await this.#greet(member, io).finally(() => member.drop());
  }

  #connect(endpoint: string): Member {
    const client = new this.#grpc.Client(endpoint, this.#credentials, CHANNEL);
    return new Member(endpoint, client, () => this.#system.monoMs());
  }

  /** Makes sure that there is a token, where there is a user. */
  async #signedIn(member: Member, io: Patience): Promise<void> {
    if (this.#options.user === null || this.#token !== null) return;
    this.#login ??= this.#logIn(member, io).finally(() => {
      this.#login = null;
    });
    try {
      await this.#login;
    } catch (error) {
      throw this.#judged(member, error);
    }
  }

  async #logIn(member: Member, io: Patience): Promise<void> {
    const { name = "", password = "" } = this.#options.user ?? {};
    const { token } = await member.call(METHODS.login, { name, password }, this.#newMetadata(null), io);
    this.#metadata = this.#newMetadata(token);
    this.#token = token;
  }

  #signedOut(error: unknown): boolean {
    const { code, details = "" } = error as Failure;
    const old = code === UNAUTHENTICATED || /revision of auth store is old|invalid auth token/.test(details);
    if (old && this.#options.user !== null) this.#token = null;
    return old && this.#options.user !== null;
  }

  /** With `hasleader` a member that knows no leader says so instead of waiting for one. */
  #newMetadata(token: string | null): Metadata {
    const metadata = new this.#grpc.Metadata();
    metadata.set("hasleader", "true");
    if (token !== null) metadata.set("token", token);
    return metadata;
  }
}

function bytes(value: string | Buffer | undefined): Buffer | null {
  if (value === undefined) return null;
  return typeof value === "string" ? Buffer.from(value) : value;
}
