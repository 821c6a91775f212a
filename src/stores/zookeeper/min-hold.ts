// Keys that stay taken although their holder may be gone (`keepMs`): a persistent node beside the queue node.
// No session ends it, so whoever finds it after its time deletes it. Both times are of the leader's calendar:
// when the node was created, and when something is written now.

import type { Request } from "../../core/store.ts";
import { type StoreContext, unlessMissing, valuesOf } from "./context.ts";
import { type Entry, keptName, sessionName } from "./paths.ts";
import { type Queue, readQueue } from "./queue-rules.ts";
import { fenceOf, readRecord, writeRecord } from "./record.ts";
import type { OpenRequest } from "./requests.ts";
import type { Connection } from "./wire/connection.ts";
import { Code, isCode } from "./wire/errors.ts";
import { check, createPath, Flags, getData, multi, remove, setData } from "./wire/ops.ts";

/** Both times are cut to whole ms. */
const ROUNDING_MS = 1;
const REMEMBERED = 1_000;

export class MinHold {
  readonly #context: StoreContext;
  /** When known kept nodes end, by name. Monotonic ms. */
  readonly #endsAtMs = new Map<string, number>();

  constructor(context: StoreContext) {
    this.#context = context;
  }

  /** Creates the kept nodes, before the grant is reported and only while the queue nodes exist. */
  async start(connection: Connection, open: OpenRequest, request: Request): Promise<void> {
    const { paths, acl } = this.#context;
    const name = keptName(request, sessionName(open.session));
    const ops = open.nodes.flatMap(({ key, path, czxid, record }) => {
      const data = writeRecord({ ...record, used: String(fenceOf(czxid)) });
      const kept = `${paths.key(key)}/${name}`;
      return [check(path), createPath({ path: kept, data, acl, flags: Flags.persistent })];
    });
    try {
      valuesOf(await connection.send(multi(ops)));
    } catch (error) {
      // An earlier attempt created them and its reply was lost.
      if (!isCode(error, Code.nodeExists)) throw error;
    }
    open.isKept = true;
  }

  /** After a release: deletes kept nodes whose time is over. */
  async end(connection: Connection, open: OpenRequest, request: Request): Promise<void> {
    const { paths, system } = this.#context;
    if (!open.isKept || system.monoMs() - open.grantedAtMs <= request.keepMs) return;
    const name = keptName(request, sessionName(open.session));
    await Promise.all(
      request.keys.map((key) => unlessMissing(connection.send(remove(`${paths.key(key)}/${name}`)), null)),
    );
  }

  /** The queue of each key without expired kept nodes, and the shortest time that a kept node still has. */
  async readQueues(
    connection: Connection,
    keys: readonly string[],
    names: readonly string[][],
  ): Promise<{ readonly queues: readonly Queue[]; readonly keptMs: number }> {
    const queues = keys.map((key, at) => readQueue(names[at] ?? [], key));
    let keptMs = Number.POSITIVE_INFINITY;
    if (!queues.some((queue) => queue.some(({ isKept }) => isKept))) return { queues, keptMs };
    const current = keys.map(async (key, at) => {
      const left = await this.withoutExpired(connection, key, queues[at] as Queue);
      for (const entry of left)
        if (entry.isKept) keptMs = Math.min(keptMs, await this.#leftMs(connection, key, entry));
      return left;
    });
    return { queues: await Promise.all(current), keptMs: Math.max(keptMs, 1) };
  }

  /** Deletes expired kept nodes and returns the queue without them. */
  async withoutExpired(connection: Connection, key: string, queue: Queue): Promise<Queue> {
    const kept = queue.filter((entry) => entry.isKept);
    if (kept.length === 0) return queue;
    const left = await Promise.all(kept.map((entry) => this.#leftMs(connection, key, entry)));
    const expired = kept.filter((_entry, at) => (left[at] as number) <= 0);
    return queue.filter((entry) => !expired.includes(entry));
  }

  /** The time that a kept node still has. Deletes the node if there is none. */
  async #leftMs(connection: Connection, key: string, { name }: Entry): Promise<number> {
    const path = `${this.#context.paths.key(key)}/${name}`;
    const endsAtMs = this.#endsAtMs.get(name) ?? (await this.#readEnd(connection, key, path, name));
    const leftMs = endsAtMs - this.#context.system.monoMs();
    if (leftMs > 0) return leftMs;
    this.#endsAtMs.delete(name);
    await unlessMissing(connection.send(remove(path)), null);
    return 0;
  }

  /** Rewrites the data of the container, because the answer contains the leader's time. */
  async #readEnd(connection: Connection, key: string, path: string, name: string): Promise<number> {
    const { paths, system } = this.#context;
    const [kept, now] = await Promise.all([
      unlessMissing(connection.send(getData(path)), null),
      unlessMissing(connection.send(setData(paths.key(key), paths.containerData(key))), null),
    ]);
    if (kept === null || now === null) return Number.NEGATIVE_INFINITY;
    const leftMs = kept.stat.ctime + readRecord(kept.data).keepMs + ROUNDING_MS - now.mtime;
    const endsAtMs = system.monoMs() + leftMs;
    if (this.#endsAtMs.size >= REMEMBERED) this.#endsAtMs.clear();
    this.#endsAtMs.set(name, endsAtMs);
    return endsAtMs;
  }
}
