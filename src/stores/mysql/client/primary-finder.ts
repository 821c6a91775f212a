// Which of the servers is the primary. Every server that was ever the primary has a row with the time of its
// claim, and each server's clients write only that server's own row, so two servers that replicate both ways
// agree as soon as the rows have met. The newest claim counts.
//
// 1. All hosts are asked at once: who they are, since when they run, whether they can be written to, and
//    whose claims they know.
// 2. The server with the newest claim is taken if it answers. If it was restarted meanwhile it may have
//    missed a newer claim: then every other host must have been asked, else it holds grants back like a new
//    one.
// 3. If it does not answer, another one takes over, but only when the primary has been silent for a while: a
//    client that is cut off from a living primary must not drag everybody to another server.
// 4. A new primary grants nothing until every lease that the old one may have granted is over (`ready_us`).

import { StoreUnavailableError } from "../../../core/errors.ts";
import { mysqlError } from "../errors.ts";
import { readFacts, refuseOld, type ServerFacts } from "../health.ts";
import { type Schema, SCHEMA_VERSION } from "../schema.ts";
import { sql } from "../sql.ts";
import type { Address, MysqlPort, SqlConnection } from "./port.ts";
import { type Claim, newest, readClaims } from "./primary-claims.ts";

/** So long a primary that does not answer must have been silent before another one takes over. */
const SILENCE_MS = 3_000;
/** Uptime is told in whole seconds. */
const SAME_START_US = 3_000_000;

/** A server that was asked, with the connection it was asked on. */
interface Asked {
  readonly host: Address;
  readonly connection: SqlConnection;
  readonly facts: ServerFacts;
  readonly claims: readonly Claim[];
  readonly nowUs: number;
}

/** The primary. */
interface Chosen extends Asked {
  /** It grants nothing yet. */
  readonly isHeldBack: boolean;
}

const NO_CLAIMS = { claims: [], nowUs: 0 };

interface Failed {
  readonly host: Address;
  readonly error: unknown;
}

export interface Primary {
  readonly host: Address;
  readonly facts: ServerFacts;
  /** Every step asks whether this server is still the primary and may grant. */
  readonly isGuarded: boolean;
}

export class PrimaryFinder {
  readonly #port: MysqlPort;
  readonly #schema: Schema;
  /** How long a new primary holds back. */
  readonly #holdMs: number;

  constructor(port: MysqlPort, schema: Schema, holdMs: number) {
    this.#port = port;
    this.#schema = schema;
    this.#holdMs = holdMs;
  }

  /** Whether there is another server to go to. */
  get several(): boolean {
    return this.#port.hosts.length > 1;
  }

  /**
   * The primary, claimed if there is none, and a connection to it; rejects when there is none to be had at
   * the moment. `remake`: a table was found to be gone.
   */
  async find(remake: boolean): Promise<{ readonly primary: Primary; readonly connection: SqlConnection }> {
    const asked: Asked[] = [];
    const failed: Failed[] = [];
    await Promise.all(
      this.#port.hosts.map((host) =>
        this.#ask(host, remake).then(
          (answer) => asked.push(answer),
          (error: unknown) => failed.push({ host, error }),
        ),
      ),
    );
    // In the order of the URL, so that everybody prefers the same one.
    asked.sort((a, b) => this.#port.hosts.indexOf(a.host) - this.#port.hosts.indexOf(b.host));
    let chosen: Chosen | null = null;
    try {
      chosen = await this.#choose(asked, failed);
      const { host, facts, connection } = chosen;
      // A server that has become the primary lately holds its grants back, also from who knows no other server.
      const isGuarded = this.several || chosen.isHeldBack;
      return { primary: { host, facts, isGuarded }, connection };
    } finally {
      for (const one of asked) if (one.connection !== chosen?.connection) one.connection.destroy();
    }
  }

  /** A connection to the primary on which every statement is a transaction of its own. */
  async connect({ host, facts }: Primary): Promise<SqlConnection> {
    const connection = await this.#port.connect(host);
    try {
      const now = await readFacts(connection);
      if (now.server === facts.server && sameStart(now.startedUs, facts.startedUs)) return connection;
      throw new StoreUnavailableError("the server was restarted or replaced since it was found");
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  close(): void {
    this.#port.close();
  }

  async #ask(host: Address, remake: boolean): Promise<Asked> {
    const connection = await this.#port.connect(host);
    try {
      const facts = await readFacts(connection);
      refuseOld(facts);
      // A server that cannot be written to has what was replicated to it, or nothing.
      const known = remake && !facts.readOnly ? null : await readClaims(connection);
      const isComplete = facts.readOnly || (known !== null && known.version >= SCHEMA_VERSION);
      if (!isComplete) await this.#schema.create(connection);
      const { claims, nowUs } = (isComplete ? known : await readClaims(connection)) ?? NO_CLAIMS;
      return { host, connection, facts, claims, nowUs };
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  async #choose(asked: readonly Asked[], failed: readonly Failed[]): Promise<Chosen> {
    const writable = asked.filter(({ facts }) => !facts.readOnly);
    const [first] = writable;
    if (first === undefined) throw nobody(asked, failed);
    const known = asked.flatMap(({ claims }) => claims);
    const present = newest(known);
    const holdMs = known.reduce((most, claim) => Math.max(most, claim.holdMs), this.#holdMs);
    if (present === null) return this.#claim(first, 0, failed.length === 0 ? 0 : holdMs);
    const own = writable.find(({ facts }) => facts.server === present.server);
    if (own !== undefined) return this.#keep(own, present, failed.length === 0, holdMs);
    // It has its data and the leases in them, so it need not wait.
    const renamed = writable.find(({ facts }) => isRenamed(facts, present));
    if (renamed !== undefined) return this.#claim(renamed, present.sinceUs, 0);
    const retired = asked.some(({ facts }) => facts.server === present.server);
    const silentMs = (first.nowUs - present.seenUs) / 1_000;
    if (this.several && !retired && silentMs < SILENCE_MS) throw alive(present, silentMs, failed);
    return this.#claim(first, present.sinceUs, first.facts.galera ? 0 : holdMs);
  }

  async #keep(own: Asked, present: Claim, everybody: boolean, holdMs: number): Promise<Chosen> {
    const same = sameStart(own.facts.startedUs, present.startedUs);
    const kept = { ...own, isHeldBack: present.readyUs > own.nowUs };
    if (same && present.holdMs >= this.#holdMs) return kept;
    if (!same && !everybody) return this.#claim(own, present.sinceUs, holdMs);
    await own.connection.run(sql["primary_restarted"], [own.facts.startedUs, holdMs, own.facts.server]);
    return kept;
  }

  async #claim(by: Asked, newestUs: number, holdMs: number): Promise<Chosen> {
    const { server, startedUs } = by.facts;
    const hold = Math.ceil(holdMs * 1_000);
    const values = [server, newestUs, hold, startedUs, Math.ceil(this.#holdMs), newestUs, newestUs];
    await by.connection.run(sql["primary_claim"], values);
    return { ...by, isHeldBack: holdMs > 0 };
  }
}

/**
 * Whether the claim is of this server under another host name, as a container that was started again has one.
 * MariaDB has no UUID: the number of a server is the part of its name that no server has in common with one
 * that it replicates with.
 */
function isRenamed({ dialect, server }: ServerFacts, present: Claim): boolean {
  const numberOf = (name: string): string => name.replace(/@.*$/s, "");
  return dialect === "mariadb" && numberOf(server) === numberOf(present.server);
}

function sameStart(oneUs: number, otherUs: number): boolean {
  return Math.abs(oneUs - otherUs) < SAME_START_US;
}

function nobody(asked: readonly Asked[], failed: readonly Failed[]): StoreUnavailableError {
  const [one] = failed;
  if (asked.length === 0 && failed.length === 1 && one !== undefined)
    throw mysqlError(one.error, "be reached");
  const causes = [
    ...asked.map(({ host }) => `${nameOf(host)} is read-only`),
    ...failed.map(({ host, error }) => `${nameOf(host)}: ${mysqlError(error, "be reached").message}`),
  ];
  return new StoreUnavailableError(`no server can be written to: ${causes.join("; ")}`, {
    cause: one?.error,
  });
}

function alive(present: Claim, silentMs: number, failed: readonly Failed[]): StoreUnavailableError {
  const causes = failed.map(
    ({ host, error }) => `${nameOf(host)}: ${mysqlError(error, "be reached").message}`,
  );
  return new StoreUnavailableError(
    `the primary ${present.server} was heard of ${Math.max(0, Math.round(silentMs))} ms ago and cannot ` +
      `be reached from here (${causes.join("; ")}); another server takes over once it has been silent ` +
      `for ${SILENCE_MS} ms`,
  );
}

function nameOf({ host, port, socketPath }: Address): string {
  return socketPath ?? `${host}:${port}`;
}
