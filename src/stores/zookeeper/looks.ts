// Who holds and who waits, for people, for errors and for operators.

import type { HolderInfo, Io, LockInfo, RevokeAnswer, RevokeOptions } from "../../core/store.ts";
import { UnsafeStoreError } from "../../core/errors.ts";
import { type Desk, orElse } from "./desk.ts";
import type { Kept } from "./kept.ts";
import { before, fits, fitting, type Line, readLine } from "./line.ts";
import type { Mailbox } from "./mailbox.ts";
import { type Entry, isDigest, keyOf } from "./names.ts";
import type { Link } from "./port.ts";
import {
  firstFence,
  FENCE_ROOM,
  holderInfo,
  readRecord,
  type Row,
  waiterInfo,
  writeRecord,
} from "./record.ts";
import { Code, isCode } from "./wire/errors.ts";
import { getChildren, getData, remove, setData } from "./wire/ops.ts";

/** An error names so many holders, not more. */
const HOLDERS_NAMED = 3;
const LISTED_AT_ONCE = 20;
const REVOKE_TRIES = 5;

interface View {
  readonly line: Line;
  readonly holders: readonly Row[];
  readonly waiters: readonly Row[];
}

export class Looks {
  readonly #desk: Desk;
  readonly #kept: Kept;
  readonly #mailbox: Mailbox;

  constructor(desk: Desk, kept: Kept, mailbox: Mailbox) {
    this.#desk = desk;
    this.#kept = kept;
    this.#mailbox = mailbox;
  }

  /** Those who stand before whoever waits, as far as they hold. */
  async holding(link: Link, key: string, line: Line): Promise<{ path: string; row: Row }[]> {
    const shown = fitting(line).slice(0, HOLDERS_NAMED);
    const rows = await this.#rows(link, key, shown);
    return rows.map((row) => ({ path: this.#path(key, row.entry), row }));
  }

  info(row: Row): HolderInfo {
    return holderInfo(row, this.#desk.system.wallMs(), this.#desk.port.timeoutMs);
  }

  async inspect(key: string, io: Io): Promise<LockInfo | null> {
    const link = await this.#desk.link(io);
    const synced = this.#desk.sync(link);
    const view = await this.#view(link, key);
    await synced;
    return this.#lockInfo(key, view);
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    const link = await this.#desk.link(io);
    const synced = this.#desk.sync(link);
    const names = await orElse(link.send(getChildren(this.#desk.paths.root)), []);
    await synced;
    const keys = (await this.#keys(link, names)).filter((key) => key.startsWith(options.prefix));
    let left = options.limit;
    for (let at = 0; at < keys.length && left > 0; at += LISTED_AT_ONCE) {
      const some = keys.slice(at, at + LISTED_AT_ONCE);
      const views = await Promise.all(some.map((key) => orNull(() => this.#view(link, key))));
      for (const [i, view] of views.entries()) {
        // A damaged record is named by `inspect`; the list goes on without it.
        const info = view === null ? null : this.#lockInfo(some[i] as string, view);
        if (info === null) continue;
        if (left === 0) return;
        left -= 1;
        yield info;
      }
    }
  }

  /** The keys of these containers. What is not a container of ours is passed over. */
  async #keys(link: Link, names: readonly string[]): Promise<string[]> {
    const { paths } = this.#desk;
    const keys = names.flatMap((name) => keyOf(name) ?? []);
    const digests = names.filter(isDigest);
    for (let at = 0; at < digests.length; at += LISTED_AT_ONCE) {
      const some = digests.slice(at, at + LISTED_AT_ONCE).map((name) => `${paths.root}/${name}`);
      const found = await Promise.all(some.map((path) => orElse(link.send(getData(path)), null)));
      for (const [i, content] of found.entries()) {
        const key = content?.data.toString() ?? "";
        if (paths.key(key) === some[i]) keys.push(key);
      }
    }
    return keys;
  }

  async revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    const link = await this.#desk.link(io);
    const synced = this.#desk.sync(link);
    const { holders } = await this.#view(link, key);
    await synced;
    if (holders.length === 0) return "free";
    const { fence } = options;
    const rows = holders.filter((row) => {
      const first = firstFence(row);
      return fence === undefined || (first <= fence && fence <= first + BigInt(FENCE_ROOM));
    });
    if (rows.length === 0) return "other-fence";
    for (const row of rows) await this.#revokeOne(link, key, row, options);
    return "revoked";
  }

  async #revokeOne(link: Link, key: string, row: Row, options: RevokeOptions): Promise<void> {
    const path = this.#path(key, row.entry);
    const kept = row.entry.kept ? row.entry.name : this.#kept.twinOf(row.entry);
    await orElse(link.send(remove(this.#path(key, { name: kept }))), null);
    if (row.entry.kept) return;
    if (options.force) await orElse(link.send(remove(path)), null);
    else await this.#mark(link, path, options.reason);
    await this.#mailbox.poke(link, row.entry.session, { path, reason: options.reason });
  }

  /** Its holder may write at the same time: neither must undo what the other wrote. */
  async #mark(link: Link, path: string, reason: string): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      const now = await orElse(link.send(getData(path)), null);
      if (now === null) return;
      const record = { ...readRecord(now.data), revoked: reason };
      try {
        await orElse(link.send(setData(path, writeRecord(record), now.stat.version)), null);
        return;
      } catch (error) {
        if (!isCode(error, Code.badVersion) || tries === REVOKE_TRIES) throw error;
      }
    }
  }

  async #view(link: Link, key: string): Promise<View> {
    const [names = []] = await this.#desk.lists(link, [key]);
    const line = await this.#kept.withoutOld(link, key, readLine(names, key));
    const rows = await this.#rows(link, key, line.entries);
    const first = new Set(fitting(line).map(({ name }) => name));
    const holds = await Promise.all(
      rows.map(async (row) => first.has(row.entry.name) && (await this.#holdsAll(link, key, row))),
    );
    return {
      line,
      holders: rows.filter((_row, at) => holds[at]),
      waiters: rows.filter((_row, at) => !holds[at]),
    };
  }

  /** One that wants several keys holds none before it is its turn at all of them. */
  async #holdsAll(link: Link, key: string, row: Row): Promise<boolean> {
    const others = row.record.keys?.filter((one) => one !== key) ?? [];
    if (row.entry.kept || others.length === 0) return true;
    const lists = await this.#desk.lists(link, others);
    const holds = others.map((other, at) =>
      orNull(async () => {
        const line = readLine(lists[at] ?? [], other);
        const own = line.entries.find(({ id, kept }) => id === row.entry.id && !kept);
        return own !== undefined && fits(before(line, own.name) ?? [], own);
      }),
    );
    // What cannot be read is the trouble of its own key.
    return (await Promise.all(holds)).every((held) => held !== false);
  }

  async #rows(link: Link, key: string, entries: readonly Entry[]): Promise<Row[]> {
    const found = await Promise.all(
      entries.map((entry) => orElse(link.send(getData(this.#path(key, entry))), null)),
    );
    return found.flatMap((content, at) =>
      content === null
        ? []
        : { entry: entries[at] as Entry, stat: content.stat, record: readRecord(content.data) },
    );
  }

  #lockInfo(key: string, { holders, waiters, line }: View): LockInfo | null {
    if (holders.length + waiters.length === 0) return null;
    const wallMs = this.#desk.system.wallMs();
    return {
      key,
      limit: line.entries.reduce((most, { limit }) => Math.max(most, limit), 1),
      holders: holders.map((row) => this.info(row)),
      waiters: waiters.map((row) => waiterInfo(row, wallMs)),
    };
  }

  #path(key: string, { name }: { readonly name: string }): string {
    return `${this.#desk.paths.key(key)}/${name}`;
  }
}

/** Null where a record is damaged. */
async function orNull<T>(read: () => Promise<T>): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof UnsafeStoreError) return null;
    throw error;
  }
}
