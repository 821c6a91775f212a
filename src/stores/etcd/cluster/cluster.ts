// The etcd client of the store, over @grpc/grpc-js. It has one connection at a time, to the first member that
// answered and knows a leader. When a call fails in a way that speaks against its member, the connection is
// dropped and the members are asked again. No call that may have been carried out is repeated.

import type * as grpcModule from "@grpc/grpc-js";
import type { ChannelCredentials, ClientOptions, Metadata } from "@grpc/grpc-js";
import type { System } from "../../../core/system.ts";
import { LockError } from "../../../core/errors.ts";
import { credentialsError, isLeaderless, noMemberError, wasRejected } from "../errors.ts";
import { checkCredentials, type EtcdCredentials, type EtcdSettings } from "../options.ts";
import * as m from "../protocol/messages.ts";
import type { Loose } from "../protocol/protobuf.ts";
import {
  type CallSignal,
  CHANNEL_OPTIONS,
  Member,
  type Method,
  UnansweredCall,
  unreferenced,
  type WatchStream,
} from "./member.ts";
import { MemberWatchdog, type ProbeResult } from "./member-watchdog.ts";

export type Grpc = Pick<typeof grpcModule, "Client" | "Metadata" | "credentials">;

/** The public methods of a cluster. Tests put others in their place. */
export type EtcdClient = Pick<Cluster, keyof Cluster>;

/** What a gRPC error carries. */
interface GrpcError {
  readonly code?: number;
  readonly details?: string;
}

export interface ClusterOptions extends Partial<Omit<EtcdSettings, "order" | "endpoints">> {
  readonly endpoints: readonly string[];
  /** A key that the user may read. Reading it shows whether a member answers. */
  readonly probeKey: string;
}

/** What `check()` reads from the servers. */
export interface ServerFacts {
  /** Null if this user may not read it, as on etcd 3.5.28 and later. */
  readonly version: string | null;
  readonly dbSize: number | null;
  /** Largest size of the database; 0 if the server does not report it. */
  readonly quota: number;
  /** Of all members together; null if this user may not read them. */
  readonly alarms: readonly number[] | null;
  readonly members: number | null;
  /** Endpoints that did not answer, or know no leader, as sentences. */
  readonly unreachable: readonly string[];
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

/** gRPC's codes that speak against the member that sent them. */
const UNKNOWN = 2;
const DEADLINE = 4;
const INTERNAL = 13;
const UNAVAILABLE = 14;
const BAD_MEMBER: ReadonlySet<number> = new Set([UNKNOWN, DEADLINE, INTERNAL, UNAVAILABLE]);
const UNAUTHENTICATED = 16;
const PERMISSION_DENIED = 7;

/** How long one member may take before the next is asked as well. */
const STAGGER_MS = 100;
/** How long an endpoint may take to answer `check()`. */
const REACH_MS = 1_000;

export class Cluster {
  readonly #grpc: Grpc;
  readonly #system: System;
  readonly #options: ClusterOptions;
  readonly #credentials: ChannelCredentials;
  readonly #watchdog: MemberWatchdog;
  #current: Member | null = null;
  #choosing: Promise<Member> | null = null;
  /** A login that is under way. */
  #login: Promise<void> | null = null;
  /** Credentials that are being fetched. */
  #fetching: Promise<EtcdCredentials> | null = null;
  #token: string | null = null;
  #metadata: Metadata;
  #isClosed = false;

  constructor(grpc: Grpc, options: ClusterOptions, system: System) {
    this.#grpc = grpc;
    this.#system = system;
    this.#options = options;
    const { tls = null } = options;
    this.#credentials = unreferenced(
      tls === null
        ? grpc.credentials.createInsecure()
        : grpc.credentials.createSsl(bytes(tls.ca), bytes(tls.key), bytes(tls.cert)),
    );
    this.#metadata = this.#newMetadata(null);
    this.#watchdog = new MemberWatchdog(system, {
      current: () => this.#current,
      probe: (member, io) => this.#probe(member, io),
      drop: (member) => this.#drop(member),
    });
  }

  /** Reads are linearizable. */
  txn(txn: m.LooseTxn, io: CallSignal): Promise<m.TxnAnswer> {
    return this.#call(METHODS.txn, txn, io);
  }

  range(range: Loose<m.Range>, io: CallSignal): Promise<m.RangeAnswer> {
    return this.#call(METHODS.range, range, io);
  }

  /** Resolves with the seconds that the server keeps the lease, which may be more than asked for. */
  async grantLease(id: number, seconds: number, io: CallSignal): Promise<number> {
    const { ttl, error } = await this.#call(METHODS.grant, { id, ttl: seconds }, io);
    if (error !== "") throw new Error(error);
    return ttl;
  }

  /** Resolves with the seconds that are left from now; 0 if there is no such lease. */
  async keepAlive(id: number, io: CallSignal): Promise<number> {
    const member = this.#current ?? (await this.#choose(io));
    await this.#ensureLogin(member, io);
    this.#watchdog.start();
    try {
      return await member.keepAlive(id, () => this.#metadata, io);
    } catch (error) {
      throw this.#judge(member, error);
    }
  }

  async revokeLease(id: number, io: CallSignal): Promise<void> {
    await this.#call(METHODS.revoke, { id }, io);
  }

  leaseLife(id: number, io: CallSignal): Promise<m.LeaseLife> {
    return this.#call(METHODS.life, { id }, io);
  }

  /** Of the member in use; null if this user may not read it. */
  async version(io: CallSignal): Promise<string | null> {
    return (await unlessDenied(this.#call(METHODS.status, {}, io)))?.version ?? null;
  }

  async facts(io: CallSignal): Promise<ServerFacts> {
    const [status, alarms, members, unreachable] = await Promise.all([
      unlessDenied(this.#call(METHODS.status, {}, io)),
      unlessDenied(this.#call(METHODS.alarms, {}, io)),
      unlessDenied(this.#call(METHODS.members, {}, io)),
      this.#unreachable(),
    ]);
    return {
      version: status?.version ?? null,
      dbSize: status?.dbSize ?? null,
      quota: status?.quota ?? 0,
      alarms: alarms?.alarms.map(({ alarm }) => alarm) ?? null,
      members: members?.members.length ?? null,
      unreachable,
    };
  }

  /** `onEnd` is called once. */
  watch(onAnswer: (answer: m.WatchAnswer) => void, onEnd: () => void): WatchStream {
    // A store watches after a call, so there is a member unless it failed in this very moment.
    if (this.#current !== null) return this.#current.watch(this.#metadata, onAnswer, onEnd);
    queueMicrotask(onEnd);
    return { send: () => {}, close: () => {} };
  }

  /** The store holds nothing and waits for nothing: no stream has to keep the process alive. */
  endIdleStreams(): void {
    this.#current?.endIdleStreams();
  }

  close(): void {
    this.#isClosed = true;
    this.#current?.drop();
    this.#current = null;
  }

  async #call<Q, A>(method: Method<Q, A>, request: Loose<Q>, io: CallSignal): Promise<A> {
    const member = this.#current ?? (await this.#choose(io));
    if (this.#needsLogin) await this.#ensureLogin(member, io);
    this.#watchdog.start();
    try {
      return await member.call(method, request, this.#metadata, io);
    } catch (error) {
      if (!this.#isLoginExpired(error)) throw this.#judge(member, error);
    }
    // Rejected before it was carried out, because the token is old. Send it once more with a new one.
    await this.#ensureLogin(member, io);
    try {
      return await member.call(method, request, this.#metadata, io);
    } catch (error) {
      throw this.#judge(member, error);
    }
  }

  /** Drops or checks the member if the error speaks against it. Returns the error. */
  #judge(member: Member, error: unknown): unknown {
    const { code = 0, details = "" } = error as GrpcError;
    // A short timeout may only mean that the machine is busy, and an error of etcd itself that it works.
    if (error instanceof UnansweredCall || details.startsWith("etcdserver:"))
      void this.#watchdog.check(member);
    else if (BAD_MEMBER.has(code)) this.#drop(member);
    return error;
  }

  async #probe(member: Member, io: CallSignal): Promise<ProbeResult> {
    try {
      return await this.#termOf(member, io);
    } catch (error) {
      if (isLeaderless(error)) return "no leader";
      return wasRejected(error) ? "rejected" : "silent";
    }
  }

  /** The term of the leader that this member knows. The member answers without asking any other. */
  async #termOf(member: Member, io: CallSignal): Promise<bigint> {
    const probe = { key: this.#options.probeKey, serializable: true, countOnly: true };
    const { header } = await member.call(METHODS.range, probe, this.#metadata, io);
    return header?.term ?? 0n;
  }

  #drop(member: Member): void {
    if (this.#current === member) this.#current = null;
    member.drop();
  }

  #choose(io: CallSignal): Promise<Member> {
    this.#choosing ??= this.#race(io).finally(() => {
      this.#choosing = null;
    });
    return this.#choosing;
  }

  /**
   * Asks one member after another, the next one as soon as the one before has failed or has taken STAGGER_MS.
   * The first good answer counts, so a frozen member costs STAGGER_MS and not a whole call.
   */
  async #race(io: CallSignal): Promise<Member> {
    if (io.signal.aborted) throw new UnansweredCall("the call was cancelled before it was sent");
    const { endpoints } = this.#options;
    const race = this.#system.abortController?.() ?? new AbortController();
    const abort = (): void => race.abort();
    io.signal.addEventListener("abort", abort, { once: true });
    // Clients begin with different members, so that the members share the work.
    const first = Math.floor(this.#system.random() * endpoints.length);
    const members = endpoints.map((_one, at) =>
      this.#connect(endpoints[(first + at) % endpoints.length] as string),
    );
    try {
      const chosen = await this.#firstToAnswer(members, race);
      if (this.#isClosed) throw new Error("the store is closed");
      this.#current = chosen;
      return chosen;
    } finally {
      io.signal.removeEventListener("abort", abort);
      race.abort();
      for (const member of members) if (member !== this.#current) member.drop();
    }
  }

  #firstToAnswer(members: readonly Member[], io: CallSignal): Promise<Member> {
    const failures: unknown[] = [];
    return new Promise((resolve, reject) => {
      const fail = (): void => reject(noMemberError(this.#options.endpoints, failures));
      const begin = async (at: number): Promise<void> => {
        const member = members[at];
        if (member === undefined || io.signal.aborted) return;
        let hasBegunNext = false;
        const beginNext = (): void => {
          if (!hasBegunNext) void begin(at + 1);
          hasBegunNext = true;
        };
        const cancel = this.#system.after(STAGGER_MS, beginNext);
        try {
          await this.#verify(member, io);
          resolve(member);
        } catch (error) {
          failures.push(error);
          if (failures.length === members.length) fail();
          beginNext();
        } finally {
          cancel();
        }
      };
      io.signal.addEventListener("abort", fail, { once: true });
      void begin(0);
    });
  }

  /** Rejects if the member does not answer or knows no leader. */
  async #verify(member: Member, io: CallSignal): Promise<void> {
    try {
      // By this very member: a login that is under way may wait for a frozen one.
      if (this.#needsLogin) await this.#logIn(member, io);
      member.term = await this.#termOf(member, io);
    } catch (error) {
      if (isLeaderless(error)) throw new Error(`${member.endpoint} knows no leader`, { cause: error });
      // It answers, or was never asked. The next call reports what is wrong with the user.
      if (!wasRejected(error) && !LockError.is(error)) throw error;
    }
  }

  /** Asks each endpoint on a connection of its own. Returns a sentence for each that failed. */
  async #unreachable(): Promise<string[]> {
    const timeout = this.#system.abortController?.() ?? new AbortController();
    const cancel = this.#system.after(REACH_MS, () => timeout.abort());
    const found = await Promise.all(
      this.#options.endpoints.map(async (endpoint) => {
        const member = this.#connect(endpoint);
        try {
          await this.#verify(member, timeout);
          return [];
        } catch (error) {
          const { message } = error as Error;
          return [message.startsWith(endpoint) ? message : `${endpoint} does not answer`];
        } finally {
          member.drop();
        }
      }),
    );
    cancel();
    return found.flat();
  }

  #connect(endpoint: string): Member {
    const { channel = null, clientOptions } = this.#options;
    const options =
      channel === null ? { ...CHANNEL_OPTIONS, ...clientOptions } : { channelOverride: channel };
    const client = new this.#grpc.Client(endpoint, this.#credentials, options as ClientOptions);
    return new Member(endpoint, client, { system: this.#system, isShared: channel !== null });
  }

  get #needsLogin(): boolean {
    return this.#options.credentials !== undefined && this.#token === null;
  }

  async #ensureLogin(member: Member, io: CallSignal): Promise<void> {
    if (!this.#needsLogin) return;
    this.#login ??= this.#logIn(member, io).finally(() => {
      this.#login = null;
    });
    try {
      await this.#login;
    } catch (error) {
      throw this.#judge(member, error);
    }
  }

  async #logIn(member: Member, io: CallSignal): Promise<void> {
    const credentials = await this.#fetchCredentials(io);
    const { token } =
      "token" in credentials
        ? credentials
        : await member.call(
            METHODS.login,
            { name: credentials.user, password: credentials.password },
            this.#newMetadata(null),
            io,
          );
    this.#metadata = this.#newMetadata(token);
    this.#token = token;
  }

  async #fetchCredentials({ signal }: CallSignal): Promise<EtcdCredentials> {
    const fetching = (this.#fetching ??= this.#askForCredentials().finally(() => {
      this.#fetching = null;
    }));
    return new Promise((resolve, reject) => {
      const abort = (): void => reject(new UnansweredCall("credentials() of etcd() did not end in time"));
      if (signal.aborted) abort();
      signal.addEventListener("abort", abort, { once: true });
      void fetching.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
    });
  }

  async #askForCredentials(): Promise<EtcdCredentials> {
    let given: unknown;
    try {
      given = await this.#options.credentials?.();
    } catch (error) {
      throw credentialsError(error);
    }
    return checkCredentials(given);
  }

  /** Forgets the token if the error says that it is no longer valid. */
  #isLoginExpired(error: unknown): boolean {
    if (this.#options.credentials === undefined) return false;
    const { code, details = "" } = error as GrpcError;
    const isExpired =
      code === UNAUTHENTICATED || /revision of auth store is old|invalid auth token/.test(details);
    if (isExpired) this.#token = null;
    return isExpired;
  }

  /** With `hasleader`, a member that knows no leader says so instead of waiting for one. */
  #newMetadata(token: string | null): Metadata {
    const metadata = new this.#grpc.Metadata();
    metadata.set("hasleader", "true");
    if (token !== null) metadata.set("token", token);
    return metadata;
  }
}

/** Null if this user may not ask. Since 3.5.28 only root may read the status. */
function unlessDenied<T>(asked: Promise<T>): Promise<T | null> {
  return asked.catch((error: unknown) => {
    if ((error as GrpcError).code === PERMISSION_DENIED) return null;
    throw error;
  });
}

function bytes(value: string | Buffer | undefined): Buffer | null {
  if (value === undefined) return null;
  return typeof value === "string" ? Buffer.from(value) : value;
}
