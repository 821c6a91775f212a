// One attempt: create a queue node, or find the one that exists, and see whether it holds.
//
// 1. An id that has ended changes nothing. A grant of a session that is gone is lost for good.
// 2. No node yet: create one, in one step for all keys (P9), and read the queue after it on the same
//    connection. The leader created the node, which proves that the session was alive then. The window of the
//    grant relies on that.
// 3. If the creation was never answered, search for the node, by id and session, before creating one (P8).
// 4. A node exists and nothing ahead is known to have changed: ask the leader (sync), which also proves that
//    the session is alive, and see whether the watched nodes still exist.
// 5. A node exists and a watched node was deleted: ask the leader, and read the queue.
// 6. Not holding: watch what is ahead. If that is gone by then, go on at 5. Nodes that stay ahead for long
//    are checked with the leader now and then, because a stale server may show nodes that the leader lacks.

import type { AttemptAnswer, Io, Request } from "../../core/store.ts";
import { handled, type StoreContext, unlessMissing } from "./context.ts";
import { tooManyKeysError } from "./errors.ts";
import { POLL_MS } from "./guarantees.ts";
import type { Inspector } from "./inspect.ts";
import type { MinHold } from "./min-hold.ts";
import type { Entry } from "./paths.ts";
import type { QueueNodes } from "./queue-nodes.ts";
import { aheadOf, entriesToWatch, fits, type Queue } from "./queue-rules.ts";
import { FENCE_ROOM, fenceOf, readRecord } from "./record.ts";
import type { OpenRequest, QueueNode } from "./requests.ts";
import type { Connection } from "./wire/connection.ts";
import { ConnectionLost, RequestTooLarge } from "./wire/errors.ts";
import { exists, getChildren, getData } from "./wire/ops.ts";

type Answer = AttemptAnswer<null>;

const ENDED: Answer = { ended: true };
/** Each further read means that something ahead was deleted meanwhile. */
const MOST_READS = 20;
const SOON_MS = 10;
/** Holders are not read again within this time: core attempts twice in a row when it starts to wait. */
const HOLDERS_MS = 500;

/** A write that changes nothing, and whether the leader had all of these nodes then. */
interface Barrier {
  readonly paths: readonly string[];
  readonly isAgreed: Promise<boolean>;
}

/** A queue node that does not hold, and what is ahead of it. */
interface Blocked {
  readonly node: QueueNode;
  readonly ahead: Queue;
}

export class Acquire {
  readonly #context: StoreContext;
  readonly #minHold: MinHold;
  readonly #inspector: Inspector;
  readonly #queueNodes: QueueNodes;
  readonly #mutex = new KeyedMutex<Answer>();

  constructor(context: StoreContext, queueNodes: QueueNodes, minHold: MinHold, inspector: Inspector) {
    this.#context = context;
    this.#queueNodes = queueNodes;
    this.#minHold = minHold;
    this.#inspector = inspector;
  }

  /** Two attempts of one id at a time would both find no node, and create two. */
  attempt(request: Request, io: Io): Promise<Answer> {
    return this.#mutex.run(request.id, () =>
      this.#attempt(request, io).catch((error: unknown) => {
        if (error instanceof RequestTooLarge) throw tooManyKeysError(request.keys, error);
        if (!(error instanceof StaleServer)) throw error;
        // Once more, at the next server.
        return this.#attempt(request, io);
      }),
    );
  }

  async #attempt(request: Request, io: Io): Promise<Answer> {
    const { requests, session } = this.#context;
    if (this.#context.hasEnded(request.id)) return ENDED;
    const connection = session.connection ?? (await session.ready(io.signal));
    const underWay = requests.get(request.id)?.creation;
    if (underWay) await underWay.catch(() => {});
    if (this.#context.hasEnded(request.id)) return ENDED;
    const open = requests.get(request.id);
    if (open === undefined) return this.#attemptFirst(connection, request);
    if (open.session !== connection.sessionId) {
      requests.forget(open);
      return open.isGranted ? this.#end(request) : this.#attemptFirst(connection, request);
    }
    if (open.nodes.length > 0) return this.#attemptAgain(connection, open, request);
    const names = await this.#queueNodes.findOrCreate(connection, open, request);
    return names === null ? this.#end(request, open) : this.#decide(connection, open, request, names);
  }

  async #attemptFirst(connection: Connection, request: Request): Promise<Answer> {
    // A request that does not wait reads the queue before it joins it.
    const rejected = request.queue ? null : await this.#peek(connection, request);
    if (rejected !== null) return rejected;
    const open = this.#context.begin(connection, request);
    const names = await this.#queueNodes.create(connection, open, request);
    return names === null ? this.#end(request, open) : this.#decide(connection, open, request, names);
  }

  /**
   * Answers "busy" only for what it read behind a barrier: it must not miss a release that was acknowledged.
   */
  async #peek(connection: Connection, request: Request, barrier?: Barrier): Promise<Answer | null> {
    const agreed = barrier?.isAgreed ?? this.#context.sync(connection);
    const names = await this.#context.listNames(connection, request.keys);
    const isAgreed = await agreed;
    const { queues } = await this.#minHold.readQueues(connection, request.keys, names);
    const own: Entry = {
      ...request,
      keys: request.keys.length,
      name: "",
      session: "",
      seq: 0,
      isKept: false,
    };
    const at = queues.findIndex((queue) => !fits(queue, own));
    if (at === -1) return null;
    const [key, queue] = [request.keys[at] as string, queues[at] as Queue];
    const ahead = entriesToWatch(queue, own).map(({ name }) => `${this.#context.paths.key(key)}/${name}`);
    if (barrier === undefined) {
      const next = { paths: ahead, isAgreed: this.#context.barrier(connection, ahead) };
      return this.#peek(connection, request, next);
    }
    if (!isAgreed && barrier.paths.every((path) => ahead.includes(path))) throw leaveStaleServer(connection);
    this.#context.end(request.id);
    const holders = await this.#inspector.readHolders(connection, key, queue);
    return { busy: { holders: holders.map(({ row }) => this.#inspector.info(row)), againMs: POLL_MS } };
  }

  async #attemptAgain(connection: Connection, open: OpenRequest, request: Request): Promise<Answer> {
    if (!open.isGranted && !open.isStirred && open.watched.length > 0) {
      const busy = await this.#heartbeat(connection, open);
      if (busy !== null) return busy;
    }
    const synced = handled(this.#context.sync(connection));
    const own = Promise.all(
      open.nodes.map(({ path }) => unlessMissing(connection.send(getData(path)), null)),
    );
    const names = handled(this.#context.listNames(connection, request.keys));
    const contents = await own;
    if (contents.some((content) => content === null || readRecord(content.data).revoked !== undefined)) {
      await this.#context.removeNodes(connection, open);
      return this.#end(request);
    }
    await synced;
    return this.#decide(connection, open, request, await names);
  }

  /** Busy if all watched nodes still exist: a heartbeat costs the same however long the queue is. */
  async #heartbeat(connection: Connection, open: OpenRequest): Promise<Answer | null> {
    const nowMs = this.#context.system.monoMs();
    // By then the node of a dead session is gone.
    const isDoubted = nowMs - open.confirmedAtMs >= this.#context.session.timeoutMs;
    const confirmed = isDoubted
      ? this.#context.barrier(connection, open.watched)
      : this.#context.sync(connection);
    const areKnown = nowMs - open.readHoldersAtMs < HOLDERS_MS;
    const [watched, holders] = await Promise.all([
      Promise.all(open.watched.map((path) => unlessMissing(connection.send(exists(path)), null))),
      areKnown ? open.holders : this.#refreshHolders(connection, open),
    ]);
    const isAgreed = await confirmed;
    if (isDoubted) open.confirmedAtMs = nowMs;
    if (open.isStirred || watched.includes(null) || holders === null) return null;
    if (!isAgreed) throw leaveStaleServer(connection);
    if (holders.some(({ row }) => row.entry.isKept)) return null;
    open.holders = holders;
    return this.#busy(open, POLL_MS);
  }

  /** The known holders as they are now, or null if one of them is gone. */
  async #refreshHolders(connection: Connection, open: OpenRequest): Promise<OpenRequest["holders"] | null> {
    const contents = await Promise.all(
      open.holders.map(({ path }) => unlessMissing(connection.send(getData(path)), null)),
    );
    const holders = open.holders.flatMap(({ path, row }, at) => {
      const content = contents[at];
      if (content === null || content === undefined) return [];
      return { path, row: { entry: row.entry, stat: content.stat, record: readRecord(content.data) } };
    });
    return holders.length < open.holders.length ? null : holders;
  }

  /** Grants if nothing is ahead, else watches what is. */
  async #decide(
    connection: Connection,
    open: OpenRequest,
    request: Request,
    first: string[][],
  ): Promise<Answer> {
    let names = first;
    for (let reads = 1; ; reads += 1) {
      const { queues, keptMs } = await this.#minHold.readQueues(connection, request.keys, names);
      const ahead = open.nodes.map(({ entry }, at) => aheadOf(queues[at] as Queue, entry.name));
      if (ahead.includes(null)) {
        // One of several nodes is gone. The others would stay for as long as the session.
        await this.#context.removeNodes(connection, open);
        return this.#end(request);
      }
      const nodes = open.nodes.map((node, at): Blocked => ({ node, ahead: ahead[at] as Queue }));
      const blocked = nodes.filter((one) => !fits(one.ahead, one.node.entry));
      const [firstBlocked] = blocked;
      if (firstBlocked === undefined) return this.#grant(connection, open, request);
      if (!request.queue) {
        this.#context.end(request.id);
        await this.#context.removeNodes(connection, open);
        return { busy: { againMs: POLL_MS } };
      }
      const { key } = firstBlocked.node;
      const queue = queues[request.keys.indexOf(key)] as Queue;
      const holders = handled(this.#inspector.readHolders(connection, key, queue));
      const isWatching = await this.#watch(connection, open, blocked);
      open.holders = await holders;
      open.readHoldersAtMs = this.#context.system.monoMs();
      if (isWatching) return this.#busy(open, Math.min(POLL_MS, keptMs));
      if (reads === MOST_READS) return this.#busy(open, SOON_MS);
      names = await this.#context.listNames(connection, request.keys);
    }
  }

  async #grant(connection: Connection, open: OpenRequest, request: Request): Promise<Answer> {
    if (request.keepMs > 0 && !open.isKept) {
      if (this.#context.hasEnded(request.id)) return ENDED;
      await this.#minHold.start(connection, open, request);
    }
    if (!open.isGranted) open.grantedAtMs = this.#context.system.monoMs();
    open.isGranted = true;
    open.holders = [];
    this.#context.requests.watch(open, []);
    return {
      granted: {
        fences: open.nodes.map(({ czxid }) => fenceOf(czxid)),
        reservedFences: request.mode === "exclusive" && request.limit === 1 ? FENCE_ROOM : 0,
        validMs: Math.min(request.ttlMs, this.#context.longestMs()),
        cookie: null,
      },
    };
  }

  #busy(open: OpenRequest, againMs: number): Answer {
    return { busy: { holders: open.holders.map(({ row }) => this.#inspector.info(row)), againMs } };
  }

  /** Watches what is ahead. False if some of it is gone already. */
  async #watch(connection: Connection, open: OpenRequest, blocked: readonly Blocked[]): Promise<boolean> {
    const { paths, requests, session, system } = this.#context;
    const watched = blocked.flatMap(({ node, ahead }) =>
      entriesToWatch(ahead, node.entry).map(({ name }) => `${paths.key(node.key)}/${name}`),
    );
    open.isStirred = false;
    const added = watched.filter((path) => !open.watched.includes(path));
    if (added.length > 0) open.confirmedAtMs = system.monoMs();
    requests.watch(open, watched);
    const found = await Promise.all(
      added.map((path) => {
        session.watch("child", path);
        return unlessMissing(connection.send(getChildren(path, true)), null);
      }),
    );
    return !found.includes(null) && !open.isStirred;
  }

  #end(request: Request, open?: OpenRequest): Answer {
    if (open !== undefined) this.#context.requests.forget(open);
    this.#context.end(request.id);
    return ENDED;
  }
}

/**
 * A server that shows nodes which its leader does not have. Servers before 3.9.4 may do so after a leader was
 * killed: whoever is connected to one would wait for ever for a key that is free.
 */
class StaleServer extends ConnectionLost {}

/** The session goes on at another server. */
function leaveStaleServer(connection: Connection): StaleServer {
  const { host, port } = connection.address;
  const error = new StaleServer(
    `${host}:${port} shows nodes that its leader does not have: another server is used`,
  );
  connection.destroy(error);
  return error;
}

/** Runs functions of one id one after another. */
class KeyedMutex<T> {
  /** The last one of each id that has not ended. */
  readonly #last = new Map<string, Promise<T>>();

  async run(id: string, go: () => Promise<T>): Promise<T> {
    const earlier = this.#last.get(id);
    const own = earlier === undefined ? go() : earlier.then(go, go);
    this.#last.set(id, own);
    try {
      return await own;
    } finally {
      if (this.#last.get(id) === own) this.#last.delete(id);
    }
  }
}
