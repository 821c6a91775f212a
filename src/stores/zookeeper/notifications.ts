// How waiters are woken, and how holders learn of revocations and lost sessions. A waiter is woken when a
// node that it watches is deleted. Each session has one node that changes when an operator revokes one of its
// locks: one watch per session, instead of one per lock that every acquire would have to pay for. A missed
// notification is noticed by the next attempt or renewal.

import type { LossReason, Request } from "../../core/store.ts";
import { type StoreContext, unlessMissing } from "./context.ts";
import type { HeldNodes } from "./held-nodes.ts";
import { sessionName } from "./paths.ts";
import type { Connection, WatchEvent } from "./wire/connection.ts";
import { Code, isCode } from "./wire/errors.ts";
import { create, Flags, getData, setData } from "./wire/ops.ts";

/** What the revocation node of a session contains. */
interface Revocation {
  readonly path: string;
  readonly reason: string;
}

type ReportLoss = (id: string, reason: LossReason, detail?: string) => void;

const CREATE_TRIES = 5;

export class Notifications {
  readonly #context: StoreContext;
  readonly #heldNodes: HeldNodes;
  readonly #wakes = new Map<string, () => void>();
  #reportLoss: ReportLoss | null = null;
  /** The session whose revocation node exists. */
  #session = 0n;

  constructor(context: StoreContext, heldNodes: HeldNodes) {
    this.#context = context;
    this.#heldNodes = heldNodes;
  }

  subscribe(request: Request, wake: () => void): () => void {
    this.#wakes.set(request.id, wake);
    return () => this.#wakes.delete(request.id);
  }

  onLoss(report: ReportLoss): () => void {
    this.#reportLoss = report;
    return () => {
      this.#reportLoss = null;
    };
  }

  close(): void {
    this.#wakes.clear();
  }

  /** Creates and watches the revocation node, once per session. */
  async open(connection: Connection): Promise<void> {
    if (this.#session === connection.sessionId) return;
    const { paths, acl } = this.#context;
    const path = paths.revocation(sessionName(connection.sessionId));
    for (let tries = 1; ; tries += 1) {
      try {
        await connection.send(create({ path, data: Buffer.from("{}"), acl, flags: Flags.ephemeral }));
        break;
      } catch (error) {
        if (isCode(error, Code.nodeExists)) break;
        if (!isCode(error, Code.noNode) || tries === CREATE_TRIES) throw error;
        await this.#context.createParents(connection, paths.revocations);
      }
    }
    await this.#readRevocation(connection);
    this.#session = connection.sessionId;
  }

  /** A session replaces an expired one. All waiters attempt again. */
  sessionStarted(): void {
    const { connection } = this.#context.session;
    // If this fails, the next renewal creates the node.
    if (connection !== null && this.#session !== 0n) this.open(connection).catch(() => {});
    for (const wake of this.#wakes.values()) wake();
  }

  sessionExpired(): void {
    for (const { id } of this.#context.requests.granted()) this.#reportLoss?.(id, "session");
  }

  receive({ kind, path }: WatchEvent): void {
    const { requests, session, paths } = this.#context;
    if (kind === "deleted") for (const { id } of requests.deleted(path)) this.#wakes.get(id)?.();
    const { connection } = session;
    if (kind !== "changed" || connection === null) return;
    if (path === paths.revocation(sessionName(connection.sessionId)))
      this.#reportRevocations(connection).catch(() => {});
  }

  async #reportRevocations(connection: Connection): Promise<void> {
    const last = await this.#readRevocation(connection);
    for (const open of this.#context.requests.granted()) {
      const records = await this.#heldNodes.readRecords(connection, open);
      const revoked = records.find((record) => record?.revoked !== undefined)?.revoked;
      if (revoked !== undefined) this.#reportLoss?.(open.id, "revoked", revoked);
      else if (records.includes(null) && !this.#context.hasEnded(open.id)) {
        const isAbout = open.nodes.some(({ path }) => path === last?.path);
        this.#reportLoss?.(open.id, isAbout ? "revoked" : "gone", isAbout ? last?.reason : undefined);
      }
    }
  }

  /** Reads the revocation node of this session, and watches it. */
  async #readRevocation(connection: Connection): Promise<Revocation | null> {
    const path = this.#context.paths.revocation(sessionName(connection.sessionId));
    this.#context.session.watch("data", path);
    const content = await unlessMissing(connection.send(getData(path, true)), null);
    const last = content === null ? {} : (JSON.parse(content.data.toString()) as Partial<Revocation>);
    return last.path === undefined || last.reason === undefined
      ? null
      : { path: last.path, reason: last.reason };
  }
}

/** Notifies the process of a session. A session that is gone need not learn of it. */
export async function notifyRevoked(
  { paths }: StoreContext,
  connection: Connection,
  session: string,
  revocation: Revocation,
): Promise<void> {
  const data = Buffer.from(JSON.stringify(revocation));
  await unlessMissing(connection.send(setData(paths.revocation(session), data)), null);
}
