// Inspecting, listing and revoking locks, and the holders that a "busy" answer names.

import { UnsafeStoreError } from "../../core/errors.ts";
import type { HolderInfo, Io, LockInfo, RevokeAnswer, RevokeOptions } from "../../core/store.ts";
import { type StoreContext, unlessMissing } from "./context.ts";
import type { MinHold } from "./min-hold.ts";
import { notifyRevoked } from "./notifications.ts";
import { type Entry, isDigest, keptNameOf, keyOf } from "./paths.ts";
import { aheadOf, fits, holdersOf, type Queue, readQueue } from "./queue-rules.ts";
import {
  FENCE_ROOM,
  firstFence,
  holderInfo,
  readRecord,
  type Row,
  waiterInfo,
  writeRecord,
} from "./record.ts";
import type { Connection } from "./wire/connection.ts";
import { Code, isCode } from "./wire/errors.ts";
import { getChildren, getData, remove, setData } from "./wire/ops.ts";

/** A "busy" answer names at most so many holders. */
const HOLDERS_NAMED = 3;
const READ_AT_ONCE = 20;
const REVOKE_TRIES = 5;

interface KeyView {
  readonly queue: Queue;
  readonly holders: readonly Row[];
  readonly waiters: readonly Row[];
}

export class Inspector {
  readonly #context: StoreContext;
  readonly #minHold: MinHold;

  constructor(context: StoreContext, minHold: MinHold) {
    this.#context = context;
    this.#minHold = minHold;
  }

  /** The first holders in this queue. */
  async readHolders(
    connection: Connection,
    key: string,
    queue: Queue,
  ): Promise<{ path: string; row: Row }[]> {
    const rows = await this.#rows(connection, key, holdersOf(queue, HOLDERS_NAMED));
    return rows.map((row) => ({ path: this.#path(key, row.entry.name), row }));
  }

  info(row: Row): HolderInfo {
    return holderInfo(row, this.#context.system.wallMs(), this.#context.session.timeoutMs);
  }

  async inspect(key: string, io: Io): Promise<LockInfo | null> {
    const connection = await this.#context.connect(io);
    const synced = this.#context.sync(connection);
    const view = await this.#view(connection, key);
    await synced;
    return this.#lockInfo(key, view);
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    const connection = await this.#context.connect(io);
    const synced = this.#context.sync(connection);
    const names = await unlessMissing(connection.send(getChildren(this.#context.paths.root)), []);
    await synced;
    const keys = (await this.#keys(connection, names)).filter((key) => key.startsWith(options.prefix));
    let left = options.limit;
    for (let at = 0; at < keys.length && left > 0; at += READ_AT_ONCE) {
      const some = keys.slice(at, at + READ_AT_ONCE);
      const views = await Promise.all(some.map((key) => unlessDamaged(() => this.#view(connection, key))));
      for (const [i, view] of views.entries()) {
        // `inspect` reports a damaged record; the list goes on without it.
        const info = view === null ? null : this.#lockInfo(some[i] as string, view);
        if (info === null) continue;
        if (left === 0) return;
        left -= 1;
        yield info;
      }
    }
  }

  /** The keys of these containers. Nodes that are no containers of ours are skipped. */
  async #keys(connection: Connection, names: readonly string[]): Promise<string[]> {
    const { paths } = this.#context;
    const keys = names.flatMap((name) => keyOf(name) ?? []);
    const digests = names.filter(isDigest);
    for (let at = 0; at < digests.length; at += READ_AT_ONCE) {
      const some = digests.slice(at, at + READ_AT_ONCE).map((name) => `${paths.root}/${name}`);
      const found = await Promise.all(
        some.map((path) => unlessMissing(connection.send(getData(path)), null)),
      );
      for (const [i, content] of found.entries()) {
        const key = content?.data.toString() ?? "";
        if (paths.key(key) === some[i]) keys.push(key);
      }
    }
    return keys;
  }

  async revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    const connection = await this.#context.connect(io);
    const synced = this.#context.sync(connection);
    const { holders } = await this.#view(connection, key);
    await synced;
    if (holders.length === 0) return "free";
    const { fence } = options;
    const chosen = holders.filter((row) => {
      const first = firstFence(row);
      return fence === undefined || (first <= fence && fence <= first + BigInt(FENCE_ROOM));
    });
    if (chosen.length === 0) return "other-fence";
    for (const row of chosen) await this.#revokeOne(connection, key, row, options);
    return "revoked";
  }

  async #revokeOne(
    connection: Connection,
    key: string,
    { entry }: Row,
    { force, reason }: RevokeOptions,
  ): Promise<void> {
    const path = this.#path(key, entry.name);
    const kept = entry.isKept ? path : this.#path(key, keptNameOf(entry));
    await unlessMissing(connection.send(remove(kept)), null);
    if (entry.isKept) return;
    if (force) await unlessMissing(connection.send(remove(path)), null);
    else await this.#markRevoked(connection, path, reason);
    await notifyRevoked(this.#context, connection, entry.session, { path, reason });
  }

  /** Its holder may write at the same time. Neither must undo what the other wrote. */
  async #markRevoked(connection: Connection, path: string, reason: string): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      const now = await unlessMissing(connection.send(getData(path)), null);
      if (now === null) return;
      const data = writeRecord({ ...readRecord(now.data), revoked: reason });
      try {
        await unlessMissing(connection.send(setData(path, data, now.stat.version)), null);
        return;
      } catch (error) {
        if (!isCode(error, Code.badVersion) || tries === REVOKE_TRIES) throw error;
      }
    }
  }

  async #view(connection: Connection, key: string): Promise<KeyView> {
    const [names = []] = await this.#context.listNames(connection, [key]);
    const queue = await this.#minHold.withoutExpired(connection, key, readQueue(names, key));
    const rows = await this.#rows(connection, key, queue);
    const first = new Set(holdersOf(queue).map(({ name }) => name));
    const holds = await Promise.all(
      rows.map(async (row) => first.has(row.entry.name) && (await this.#holdsAll(connection, key, row))),
    );
    return {
      queue,
      holders: rows.filter((_row, at) => holds[at]),
      waiters: rows.filter((_row, at) => !holds[at]),
    };
  }

  /** A request for several keys holds if nothing is ahead of it in any of them. */
  async #holdsAll(connection: Connection, key: string, { entry, record }: Row): Promise<boolean> {
    const others = record.keys?.filter((one) => one !== key) ?? [];
    if (entry.isKept || others.length === 0) return true;
    const names = await this.#context.listNames(connection, others);
    const holds = others.map((other, at) =>
      unlessDamaged(async () => {
        const queue = readQueue(names[at] ?? [], other);
        const own = queue.find(({ id, isKept }) => id === entry.id && !isKept);
        return own !== undefined && fits(aheadOf(queue, own.name) ?? [], own);
      }),
    );
    // Damage is reported for its own key only.
    return (await Promise.all(holds)).every((held) => held !== false);
  }

  async #rows(connection: Connection, key: string, entries: readonly Entry[]): Promise<Row[]> {
    const found = await Promise.all(
      entries.map(({ name }) => unlessMissing(connection.send(getData(this.#path(key, name))), null)),
    );
    return found.flatMap((content, at) =>
      content === null
        ? []
        : { entry: entries[at] as Entry, stat: content.stat, record: readRecord(content.data) },
    );
  }

  #lockInfo(key: string, { holders, waiters, queue }: KeyView): LockInfo | null {
    if (holders.length + waiters.length === 0) return null;
    const nowMs = this.#context.system.wallMs();
    return {
      key,
      limit: queue.reduce((most, { limit }) => Math.max(most, limit), 1),
      holders: holders.map((row) => this.info(row)),
      waiters: waiters.map((row) => waiterInfo(row, nowMs)),
    };
  }

  #path(key: string, name: string): string {
    return `${this.#context.paths.key(key)}/${name}`;
  }
}

/** Null if a record is damaged. */
async function unlessDamaged<T>(read: () => Promise<T>): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof UnsafeStoreError) return null;
    throw error;
  }
}
