// Queue nodes: how they are created, and how they are found if it is unknown whether they were created. All
// nodes of one request are created in one step (P9), and never by a request that has ended meanwhile (P8).

import type { Request } from "../../core/store.ts";
import { handled, type StoreContext, unlessMissing, valuesOf } from "./context.ts";
import { queueNodeName, readName, sessionName } from "./paths.ts";
import { readQueue } from "./queue-rules.ts";
import { newRecord, readRecord, writeRecord } from "./record.ts";
import type { OpenRequest, QueueNode } from "./requests.ts";
import type { Connection } from "./wire/connection.ts";
import { Code, ConnectionLost, isCode } from "./wire/errors.ts";
import {
  create,
  createPath,
  type CreateSpec,
  exists,
  Flags,
  getChildren,
  getData,
  multi,
  type Stat,
} from "./wire/ops.ts";

/** The server may delete an empty container before it is used. */
const CREATE_TRIES = 5;

export class QueueNodes {
  readonly #context: StoreContext;

  constructor(context: StoreContext) {
    this.#context = context;
  }

  /** Returns the node names of each key, ours included, or null if the request has ended meanwhile. */
  async create(connection: Connection, open: OpenRequest, request: Request): Promise<string[][] | null> {
    const creation = this.#tryToCreate(connection, open, request);
    open.creation = creation;
    try {
      return await creation;
    } catch (error) {
      // If the outcome is unknown, the request stays known, so that the next attempt searches for its nodes.
      if (!(error instanceof ConnectionLost) && open.nodes.length === 0) this.#context.requests.forget(open);
      throw error;
    } finally {
      open.creation = null;
    }
  }

  async #tryToCreate(
    connection: Connection,
    open: OpenRequest,
    request: Request,
  ): Promise<string[][] | null> {
    for (let tries = 1; ; tries += 1) {
      if (this.#context.hasEnded(request.id)) return null;
      try {
        return await (request.keys.length === 1
          ? this.#createOne(connection, open, request)
          : this.#createAll(connection, open, request));
      } catch (error) {
        if (!isCode(error, Code.noNode) || tries === CREATE_TRIES) throw error;
        for (const key of request.keys) await this.#context.createContainer(connection, key);
      }
    }
  }

  /** The creation and the reading of the queue are one round trip. */
  async #createOne(connection: Connection, open: OpenRequest, request: Request): Promise<string[][]> {
    const container = this.#context.paths.key(request.keys[0] as string);
    const creation = connection.send(create(this.#spec(request, open, container)));
    const names = handled(connection.send(getChildren(container)));
    const { path, stat } = await creation;
    open.nodes = [toNode(request, 0, path, stat)];
    return [await names];
  }

  async #createAll(connection: Connection, open: OpenRequest, request: Request): Promise<string[][] | null> {
    const containers = request.keys.map((key) => this.#context.paths.key(key));
    const ops = containers.map((container) => createPath(this.#spec(request, open, container)));
    const paths = valuesOf(await connection.send(multi(ops))) as string[];
    const found = paths.map((path) => unlessMissing(connection.send(exists(path)), null));
    const names = handled(Promise.all(containers.map((one) => connection.send(getChildren(one)))));
    const stats = await Promise.all(found);
    open.nodes = stats.flatMap((stat, at) =>
      stat === null ? [] : toNode(request, at, paths[at] as string, stat),
    );
    return (await this.#isComplete(connection, open, request)) ? names : null;
  }

  #spec(request: Request, open: OpenRequest, container: string): CreateSpec {
    return {
      path: `${container}/${queueNodeName(request, sessionName(open.session))}`,
      data: writeRecord(newRecord(request)),
      acl: this.#context.acl,
      flags: Flags.ephemeralSequential,
    };
  }

  /** As `create`, for a request whose nodes may exist. */
  async findOrCreate(
    connection: Connection,
    open: OpenRequest,
    request: Request,
  ): Promise<string[][] | null> {
    const nodes = await this.find(connection, open, request.keys);
    if (nodes.length === 0) return this.create(connection, open, request);
    open.nodes = nodes;
    const isComplete = await this.#isComplete(connection, open, request);
    return isComplete ? this.#context.listNames(connection, request.keys) : null;
  }

  /** All keys or none (P9): if somebody deleted one of the nodes, the request ends and the others go too. */
  async #isComplete(connection: Connection, open: OpenRequest, request: Request): Promise<boolean> {
    if (open.nodes.length === request.keys.length) return true;
    this.#context.end(request.id);
    await this.#context.removeNodes(connection, open);
    return false;
  }

  /** The nodes of a request that exist, by id and session. */
  async find(connection: Connection, open: OpenRequest, keys: readonly string[]): Promise<QueueNode[]> {
    const synced = this.#context.sync(connection);
    const names = await this.#context.listNames(connection, keys);
    await synced;
    const session = sessionName(open.session);
    const found = keys.map(async (key, at) => {
      const entry = readQueue(names[at] ?? [], key).find(
        (one) => !one.isKept && one.id === open.id && one.session === session,
      );
      if (entry === undefined) return [];
      const path = `${this.#context.paths.key(key)}/${entry.name}`;
      const content = await unlessMissing(connection.send(getData(path)), null);
      if (content === null || content.stat.ephemeralOwner !== open.session) return [];
      const { czxid, version } = content.stat;
      return { key, path, entry, czxid, version, record: readRecord(content.data) };
    });
    return (await Promise.all(found)).flat();
  }
}

function toNode(request: Request, at: number, path: string, { czxid, version }: Stat): QueueNode {
  const key = request.keys[at] as string;
  const entry = readName(path.slice(path.lastIndexOf("/") + 1), key);
  return { key, path, entry, czxid, version, record: newRecord(request) };
}
