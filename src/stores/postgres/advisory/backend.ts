// Session locks in PostgreSQL: `pg_advisory_lock` on a connection of its own. The server frees it when the
// connection ends, however it ends; `idle_session_timeout` ends that of a client that has stopped. Fences and
// the names of holders are rows, and who really holds is asked of pg_locks.

import { createHash } from "node:crypto";
import { StoreUnavailableError } from "../../../core/errors.ts";
import type {
  Finding,
  HolderInfo,
  LockInfo,
  Mode,
  RevokeAnswer,
  RevokeOptions,
  StoreEnv,
  TransactionDesk,
} from "../../../core/store.ts";
import { damagedRow } from "../../shared/record-validation.ts";
import type { CallContext } from "../../shared/retry-while-unsent.ts";
import { findings } from "../health.ts";
import { isServerError, postgresError } from "../errors.ts";
import { advisoryGuarantees } from "../guarantees.ts";
import { channelOf, newProc, showText, whoIs } from "../names.ts";
import { type Connections, newCall, type Row } from "../client/connections.ts";
import type { Sql } from "../sql.ts";
import { PostgresTransaction } from "../transaction.ts";
import { Cleaner } from "./cleaner.ts";
import { type Notifications, revocationText } from "./notifications.ts";
import type { AdvisoryRequest } from "./request.ts";
import { type Session, Sessions } from "./session.ts";

/** numeric_value_out_of_range */
const OUT_OF_RANGE = "22003";
const CLAIM = String(advisoryGuarantees.claimMs);

/** What the server knows of a session that wants a lock. */
type SessionState = "waits" | "holds" | null;

export class AdvisoryBackend {
  readonly #connections: Connections;
  readonly #sql: Sql;
  readonly #namespace: string;
  readonly #utf8: boolean;
  readonly #found: readonly Finding[];
  readonly #proc: string;
  readonly #who: { readonly host: string; readonly process: string };
  readonly #sessions: Sessions;
  readonly #cleaner: Cleaner;

  constructor(
    connections: Connections,
    sql: Sql,
    env: StoreEnv,
    known: {
      readonly utf8: boolean;
      readonly findings: readonly Finding[];
      readonly maxConnections: number;
      readonly notifications: Notifications;
    },
  ) {
    this.#connections = connections;
    this.#sql = sql;
    this.#namespace = env.namespace;
    this.#utf8 = known.utf8;
    this.#found = known.findings;
    this.#proc = newProc(env.system);
    this.#who = whoIs(env.system.processLabel.replaceAll(/[^\x20-\x7e]/g, "?"));
    const hear = (text: string): void => known.notifications.hear(text);
    this.#sessions = new Sessions(connections, sql, env.system, {
      channel: channelOf(this.#proc),
      hear,
      maxConnections: known.maxConnections,
    });
    const raiseFloor = async (call: CallContext): Promise<number> =>
      Number((await connections.query(sql.session_floor, [], call))[0]?.["last"] ?? 0);
    const deleteSome = async (floor: number, call: CallContext): Promise<boolean> =>
      (await connections.query(sql.session_clean, [floor], call))[0]?.["more"] === "true";
    this.#cleaner = new Cleaner({ raiseFloor, deleteSome }, env.system);
  }

  /** A session that holds nothing. */
  open(call: CallContext): Promise<Session> {
    return this.#sessions.take(call);
  }

  /** The session holds nothing any more and may be used again. */
  giveBack(session: Session): void {
    this.#sessions.giveBack(session);
  }

  /** Closes the session. Resolves when the server has neither lock nor wait of it. */
  end(session: Session, call: CallContext): Promise<void> {
    return this.#sessions.end(session, call);
  }

  /** Tries once. null: the lock is not free. */
  async tryLock(session: Session, own: AdvisoryRequest, call: CallContext): Promise<bigint | null> {
    const [row] = await session.query(this.#sql.session_acquire, this.#values(own), call);
    return row?.["ok"] === "true" ? fenceOf(row, session) : null;
  }

  /** The session has waited and has the lock. */
  async drawFence(session: Session, own: AdvisoryRequest, call: CallContext): Promise<bigint> {
    const [row] = await session.query(this.#sql.session_draw_fence, this.#values(own), call);
    return fenceOf(row as Row, session);
  }

  /** Waits in the server until the session has the lock. It can be asked nothing else meanwhile. */
  async waitForLock(session: Session, { request }: AdvisoryRequest): Promise<void> {
    const text = request.mode === "shared" ? this.#sql.session_wait_shared : this.#sql.session_wait;
    await session.query(text, [this.#lock(request.keys[0] as string), CLAIM], newCall());
  }

  /** The idle time of the session begins again. `label` null: as it was. */
  async renew(
    session: Session,
    { request, lastsMs }: AdvisoryRequest,
    { used, label }: { readonly used: bigint; readonly label: string | null },
    call: CallContext,
  ): Promise<"held" | "gone" | { readonly revoked: string }> {
    const said = label === null ? null : showText(label, this.#utf8);
    const values = [request.id, String(used), said, Math.ceil(lastsMs) * 1_000, String(Math.ceil(lastsMs))];
    const [row] = await session.query(this.#sql.session_renew, values, call);
    if (row === undefined) return "gone";
    const revoked = row["revoked"] ?? null;
    return revoked === null ? "held" : { revoked };
  }

  /** First writes the last fence down that was used, where somebody can say. Whether the lock was held. */
  async release(
    session: Session,
    { request }: AdvisoryRequest,
    used: bigint | null,
    call: CallContext,
  ): Promise<boolean> {
    const digest = this.#digest(request.keys[0] as string);
    const lock = this.#lock(request.keys[0] as string);
    const values = [digest, lock, request.id, request.mode, used === null ? null : String(used)];
    const [row] = await session.query(this.#sql.session_release, values, call);
    return row?.["held"] === "true";
  }

  /** Who holds a key, and what the server knows of a session that waits for it. Asked on another session. */
  async inspect(
    key: string,
    session: Session | null,
    call: CallContext,
  ): Promise<{ readonly state: SessionState; readonly holders: readonly HolderInfo[] }> {
    const rows = await this.#rows(key, session?.pid ?? null, call);
    return { state: (rows[0]?.["own"] ?? null) as SessionState, holders: rows.filter(isHolder).map(infoOf) };
  }

  async note(id: string, waitingFor: string | null, call: CallContext): Promise<void> {
    const key = waitingFor === null ? null : Buffer.from(waitingFor);
    await this.#connections.query(this.#sql.session_note, [id, key], call);
  }

  async list(prefix: string, call: CallContext): Promise<readonly LockInfo[]> {
    const values = [this.#namespace, Buffer.from(prefix)];
    const rows = await this.#connections.query(this.#sql.session_list, values, call);
    const byKey = new Map<string, HolderInfo[]>();
    for (const row of rows) {
      const key = Buffer.from(row["key"] as string, "hex").toString();
      byKey.set(key, [...(byKey.get(key) ?? []), infoOf(row)]);
    }
    return [...byKey].map(([key, holders]) => ({ key, limit: 1, holders, waiters: null }));
  }

  async revoke(
    key: string,
    { fence, reason, force }: RevokeOptions,
    call: CallContext,
  ): Promise<RevokeAnswer> {
    const rows = (await this.#rows(key, null, call)).filter(isHolder);
    if (rows.length === 0) return "free";
    const meant = rows.filter((row) => fence === undefined || isOf(row, fence));
    if (meant.length === 0) return "other-fence";
    const said = showText(reason, this.#utf8);
    const ids = meant.map((row) => row["id"] as string);
    const channels = meant.map((row) => channelOf(row["proc"] as string));
    const texts = ids.map((id) => revocationText(id, said));
    await this.#connections.query(this.#sql.session_revoke, [ids, said, channels, texts], call);
    // The holder is told before its session ends.
    if (force) await this.#connections.query(this.#sql.session_terminate_holders, [ids], call);
    return "revoked";
  }

  cleanIfDue(call: CallContext): void {
    this.#cleaner.run(call);
  }

  async check(call: CallContext): Promise<readonly Finding[]> {
    return [...this.#found, ...(await findings(this.#connections, this.#sql.session_settings, call))];
  }

  inTransaction(tx: unknown): TransactionDesk {
    return new PostgresTransaction(tx, async (query, key, mode) => {
      const [row] = await query(this.#sql.tx_session, [this.#digest(key), this.#lock(key), mode]);
      if (row?.["ok"] === "true") return { fence: BigInt(row["fence"] as string) };
      const values = [this.#lock(key), this.#namespace, Buffer.from(key), null];
      return { holders: (await query(this.#sql.session_inspect, values)).filter(isHolder).map(infoOf) };
    });
  }

  /** `doing` completes "PostgreSQL could not". */
  toLockError(error: unknown, doing: string, key: string | undefined): Error {
    // Sessions of locks do not retry by themselves. The next call finds the tables.
    void this.#connections.recreate(error);
    // The only number that a statement reckons with and that is not of its own is the last fence of the key.
    if (key !== undefined && isServerError(error) && error.code === OUT_OF_RANGE)
      return damagedRow(key, error);
    return postgresError(error, doing, key);
  }

  async close(): Promise<void> {
    this.#sessions.close();
    await this.#connections.close();
  }

  #rows(key: string, pid: number | null, call: CallContext): Promise<readonly Row[]> {
    const values = [this.#lock(key), this.#namespace, Buffer.from(key), pid];
    return this.#connections.query(this.#sql.session_inspect, values, call);
  }

  #values({ request, reservedFences, lastsMs }: AdvisoryRequest): readonly unknown[] {
    const { id, label, actor, mode } = request;
    const [key] = request.keys as readonly [string];
    const { host, process } = this.#who;
    const people = [host, process, showText(label, this.#utf8), showText(actor, this.#utf8)];
    const lasts = Math.ceil(lastsMs);
    const what = [this.#digest(key), this.#lock(key), id, this.#namespace, Buffer.from(key)];
    return [...what, this.#proc, ...people, reservedFences, mode, lasts * 1_000, String(lasts)];
  }

  #digest(key: string): Buffer {
    return createHash("sha256").update(`${this.#namespace}\0${key}`).digest();
  }

  /** 64 bits, which is what the server has for the name of a lock. */
  #lock(key: string): string {
    return String(this.#digest(key).readBigInt64BE(0));
  }
}

function fenceOf(row: Row, session: Session): bigint {
  if (Number(row["pid"]) !== session.pid)
    throw new StoreUnavailableError("a pooler has changed the session of this lock under way");
  return BigInt(row["fence"] as string);
}

const isHolder = (row: Row): boolean => row["id"] !== null;

function isOf(row: Row, fence: bigint): boolean {
  const first = BigInt(row["fence"] as string);
  return first <= fence && fence <= first + BigInt(row["room"] as string);
}

function infoOf(row: Row): HolderInfo {
  const waitingFor = row["waiting_for"] ?? null;
  const revoked = row["revoked"] ?? null;
  return {
    label: row["label"] as string,
    mode: row["mode"] as Mode,
    permits: 1,
    fence: BigInt(row["used"] as string),
    remainingMs: Math.max(0, Number(row["remaining_ms"])),
    heldMs: Math.max(0, Number(row["held_ms"])),
    ...(waitingFor === null ? {} : { waitingFor: Buffer.from(waitingFor, "hex").toString() }),
    ...(revoked === null ? {} : { revoked }),
  };
}
