// What happens to queue nodes after a grant: renewed, verified, updated and deleted. A sync goes first: the
// leader confirms that the session is alive, and reads after it are not older.

import type { Note, RenewAnswer, RenewItem, Request } from "../../core/store.ts";
import { type StoreContext, unlessMissing } from "./context.ts";
import { zookeeperError } from "./errors.ts";
import type { MinHold } from "./min-hold.ts";
import type { QueueNodes } from "./queue-nodes.ts";
import { fenceOf, type NodeRecord, readRecord, writeRecord } from "./record.ts";
import type { OpenRequest, QueueNode } from "./requests.ts";
import type { Connection } from "./wire/connection.ts";
import { Code, ConnectionLost, isCode } from "./wire/errors.ts";
import { getData, setData } from "./wire/ops.ts";

const WRITE_TRIES = 5;

export class HeldNodes {
  readonly #context: StoreContext;
  readonly #queueNodes: QueueNodes;
  readonly #minHold: MinHold;

  constructor(context: StoreContext, queueNodes: QueueNodes, minHold: MinHold) {
    this.#context = context;
    this.#queueNodes = queueNodes;
    this.#minHold = minHold;
  }

  async renew(connection: Connection, items: readonly RenewItem<null>[]): Promise<readonly RenewAnswer[]> {
    const synced = this.#context.sync(connection);
    const answers = await Promise.all(
      items.map((item) =>
        this.#renewOne(connection, item).catch((error: unknown): RenewAnswer => {
          if (error instanceof ConnectionLost) throw error;
          // A damaged node affects its own lease only.
          const cause = zookeeperError(error, "renew the lease", item.request.keys[0]);
          return { state: "unknown", cause };
        }),
      ),
    );
    await synced;
    return answers;
  }

  async #renewOne(connection: Connection, item: RenewItem<null>): Promise<RenewAnswer> {
    const { request, ttlMs, lastFences, label } = item;
    const known = this.#context.requests.get(request.id);
    if (known !== undefined && known.session !== connection.sessionId)
      return { state: "lost", reason: "session" };
    const open = this.#held(request, connection);
    if (open === null) return { state: "lost", reason: "gone" };
    const records = await Promise.all(
      open.nodes.map((node, at) => {
        const first = fenceOf(node.czxid);
        const used = lastFences[at] ?? first;
        const { record } = node;
        if (record.label === label && (record.used ?? String(first)) === String(used))
          return this.#read(connection, node);
        return this.#write(connection, node, ({ used: _old, ...rest }) =>
          used === first ? { ...rest, label } : { ...rest, label, used: String(used) },
        );
      }),
    );
    if (records.includes(null)) return { state: "lost", reason: "gone" };
    const revoked = records.find((record) => record?.revoked !== undefined)?.revoked;
    if (revoked !== undefined) return { state: "lost", reason: "revoked", detail: revoked };
    return { state: "renewed", validMs: Math.min(ttlMs, this.#context.longestMs()) };
  }

  async owns(connection: Connection, request: Request): Promise<boolean> {
    const open = this.#held(request, connection);
    if (open === null) return false;
    const synced = this.#context.sync(connection);
    const records = await this.readRecords(connection, open);
    await synced;
    return records.every((record) => record !== null && record.revoked === undefined);
  }

  async note(connection: Connection, request: Request, note: Note): Promise<void> {
    const nodes = this.#held(request, connection)?.nodes ?? [];
    await Promise.all(
      nodes.map((node) =>
        this.#write(connection, node, ({ waitingFor: _old, ...record }) =>
          note === null ? record : { ...record, waitingFor: note.waitingFor },
        ),
      ),
    );
  }

  /**
   * Deletes all nodes of a request, whether it held, waited, or that is unknown. True if all of them existed.
   */
  async remove(request: Request, io: { readonly signal: AbortSignal }): Promise<boolean> {
    const open = this.#context.requests.get(request.id);
    if (open === undefined) return false;
    const connection = await this.#context.connect(io);
    if (open.creation !== null) await open.creation.catch(() => {});
    if (open.session !== connection.sessionId) {
      // The server has ended the session, and with it every node of it.
      this.#context.requests.forget(open);
      return false;
    }
    if (open.nodes.length === 0) open.nodes = await this.#queueNodes.find(connection, open, request.keys);
    const wereThere = await this.#context.removeNodes(connection, open);
    await this.#minHold.end(connection, open, request);
    return wereThere;
  }

  /** The current records of a request; null for a node that is gone. */
  readRecords(connection: Connection, open: OpenRequest): Promise<(NodeRecord | null)[]> {
    return Promise.all(open.nodes.map((node) => this.#read(connection, node)));
  }

  /** The request, if it was granted in this session. */
  #held(request: Request, { sessionId }: Connection): OpenRequest | null {
    const open = this.#context.requests.get(request.id);
    return open?.isGranted === true && open.session === sessionId ? open : null;
  }

  async #read(connection: Connection, node: QueueNode): Promise<NodeRecord | null> {
    const content = await unlessMissing(connection.send(getData(node.path)), null);
    if (content === null) return null;
    node.version = content.stat.version;
    node.record = readRecord(content.data);
    return node.record;
  }

  /** Changes the record of our own node, and keeps what an operator wrote. Null if the node is gone. */
  async #write(
    connection: Connection,
    node: QueueNode,
    change: (record: NodeRecord) => NodeRecord,
  ): Promise<NodeRecord | null> {
    for (let tries = 1; ; tries += 1) {
      const record = change(node.record);
      try {
        const write = setData(node.path, writeRecord(record), node.version);
        const stat = await unlessMissing(connection.send(write), null);
        if (stat === null) return null;
        node.version = stat.version;
        node.record = record;
        return record;
      } catch (error) {
        if (!isCode(error, Code.badVersion) || tries === WRITE_TRIES) throw error;
        if ((await this.#read(connection, node)) === null) return null;
      }
    }
  }
}
