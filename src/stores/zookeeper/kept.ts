// Keys that stay taken although their holder may be gone: a persistent node beside the holder's own. Nobody is there to end it,
// so whoever meets it after its time takes it away. Time is the leader's calendar at both ends: when the node was made, and
// when something is written now.

import type { Request } from "../../core/store.ts";
import type { Claim } from "./claims.ts";
import { type Desk, orElse, valuesOf } from "./desk.ts";
import { type Line, readLine } from "./line.ts";
import { type Entry, keptName, sessionName } from "./names.ts";
import type { Link } from "./port.ts";
import { fenceOf, readRecord, writeRecord } from "./record.ts";
import { Code, isCode } from "./wire/errors.ts";
import { check, createPath, Flags, getData, multi, remove, setData } from "./wire/ops.ts";

/** Both readings are cut to whole ms. */
const ROUNDING_MS = 1;
const REMEMBERED = 1_000;

export class Kept {
  readonly #desk: Desk;
  /** Until when, by our monotonic clock, for those whose time was asked for already. */
  readonly #untilMs = new Map<string, number>();

  constructor(desk: Desk) {
    this.#desk = desk;
  }

  /** Before the grant is told, and only while the place is there: from then on the key stays taken whatever becomes of us. */
  async keep(link: Link, claim: Claim, request: Request): Promise<void> {
    const name = keptName(request, sessionName(claim.session));
    const ops = claim.places.flatMap(({ key, path, czxid, record }) => {
      const data = writeRecord({ ...record, used: String(fenceOf(czxid)) });
      const kept = `${this.#desk.paths.key(key)}/${name}`;
      return [check(path), createPath({ path: kept, data, acl: this.#desk.acl, flags: Flags.persistent })];
    });
    try {
      valuesOf(await link.send(multi(ops)));
    } catch (error) {
      // An earlier attempt made them and its reply was lost.
      if (!isCode(error, Code.nodeExists)) throw error;
    }
    claim.kept = true;
  }

  /** After a release: what is kept no longer than until now goes at once. */
  async releaseOld(link: Link, claim: Claim, request: Request): Promise<void> {
    if (!claim.kept || this.#desk.system.monoMs() - claim.grantedAtMs <= request.keepMs) return;
    const name = keptName(request, sessionName(claim.session));
    await Promise.all(
      request.keys.map((key) => orElse(link.send(remove(`${this.#desk.paths.key(key)}/${name}`)), null)),
    );
  }

  /** What belongs to a place, if it keeps anything. */
  twinOf({ name }: Entry): string {
    return `k${name.slice(0, name.lastIndexOf("."))}`;
  }

  /** The line without what was kept long enough, which is taken away. */
  async withoutOld(link: Link, key: string, line: Line): Promise<Line> {
    const kept = line.entries.filter((entry) => entry.kept);
    if (kept.length === 0) return line;
    const left = await Promise.all(kept.map((entry) => this.leftMs(link, key, entry)));
    const old = kept.filter((_entry, at) => (left[at] as number) <= 0);
    return { entries: line.entries.filter((entry) => !old.includes(entry)) };
  }

  /** For how long it is still kept; what is over is taken away. */
  async leftMs(link: Link, key: string, entry: Entry): Promise<number> {
    const path = `${this.#desk.paths.key(key)}/${entry.name}`;
    const untilMs = this.#untilMs.get(entry.name) ?? (await this.#ask(link, key, path, entry.name));
    const leftMs = untilMs - this.#desk.system.monoMs();
    if (leftMs > 0) return leftMs;
    this.#untilMs.delete(entry.name);
    await orElse(link.send(remove(path)), null);
    return 0;
  }

  /** Writing the container's data again tells the leader's time. */
  async #ask(link: Link, key: string, path: string, name: string): Promise<number> {
    const { paths } = this.#desk;
    const [kept, now] = await Promise.all([
      orElse(link.send(getData(path)), null),
      orElse(link.send(setData(paths.key(key), paths.containerData(key))), null),
    ]);
    if (kept === null || now === null) return Number.NEGATIVE_INFINITY;
    const leftMs = kept.stat.ctime + readRecord(kept.data).keepMs + ROUNDING_MS - now.mtime;
    const untilMs = this.#desk.system.monoMs() + leftMs;
    if (this.#untilMs.size >= REMEMBERED) this.#untilMs.clear();
    this.#untilMs.set(name, untilMs);
    return untilMs;
  }

  /** The lines without what was kept long enough, and how long what is kept stands in the way at the least. */
  async swept(
    link: Link,
    keys: readonly string[],
    lists: readonly string[][],
  ): Promise<{ readonly lines: readonly Line[]; readonly keptMs: number }> {
    let keptMs = Number.POSITIVE_INFINITY;
    const lines = keys.map((key, at) => readLine(lists[at] ?? [], key));
    if (!lines.some(({ entries }) => entries.some(({ kept }) => kept))) return { lines, keptMs };
    const swept = keys.map(async (key, at) => {
      const line = await this.withoutOld(link, key, lines[at] as Line);
      for (const entry of line.entries)
        if (entry.kept) keptMs = Math.min(keptMs, await this.leftMs(link, key, entry));
      return line;
    });
    return { lines: await Promise.all(swept), keptMs: Math.max(keptMs, 1) };
  }
}
