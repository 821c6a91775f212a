// What is held already: renewed, shown to be ours, and written about. The sync that goes first makes the leader say that the
// session lives, and makes what is read behind it no older than that.

import type { Note, RenewAnswer, RenewItem, Request } from "../../core/store.ts";
import type { Claim, Place } from "./claims.ts";
import { type Desk, orElse } from "./desk.ts";
import { zookeeperError } from "./errors.ts";
import type { Link } from "./port.ts";
import { fenceOf, type PlaceRecord, readRecord, writeRecord } from "./record.ts";
import { Code, ConnectionLost, isCode } from "./wire/errors.ts";
import { getData, setData } from "./wire/ops.ts";

const WRITE_TRIES = 5;

export class Holdings {
  readonly #desk: Desk;
  readonly #longestMs: () => number;

  constructor(desk: Desk, longestMs: () => number) {
    this.#desk = desk;
    this.#longestMs = longestMs;
  }

  async renew(link: Link, items: readonly RenewItem<null>[]): Promise<readonly RenewAnswer[]> {
    const synced = this.#desk.sync(link);
    const answers = await Promise.all(
      items.map((item) =>
        this.#renewOne(link, item).catch((error: unknown): RenewAnswer => {
          if (error instanceof ConnectionLost) throw error;
          // What is wrong with one node is no trouble of the others.
          const cause = zookeeperError(error, "renew the lease", item.request.keys[0]);
          return { state: "unknown", cause };
        }),
      ),
    );
    await synced;
    return answers;
  }

  async owns(link: Link, request: Request): Promise<boolean> {
    const claim = this.#held(request, link);
    if (claim === null) return false;
    const synced = this.#desk.sync(link);
    const records = await this.records(link, claim);
    await synced;
    return records.every((record) => record !== null && record.revoked === undefined);
  }

  async note(link: Link, request: Request, note: Note): Promise<void> {
    const places = this.#held(request, link)?.places ?? [];
    await Promise.all(
      places.map((place) =>
        this.#write(link, place, ({ waitingFor: _old, ...record }) =>
          note === null ? record : { ...record, waitingFor: note.waitingFor },
        ),
      ),
    );
  }

  /** What the places say now; null for one that is gone. */
  records(link: Link, claim: Claim): Promise<(PlaceRecord | null)[]> {
    return Promise.all(claim.places.map((place) => this.#stateOf(link, place)));
  }

  async #renewOne(link: Link, { request, ttlMs, lastFences, label }: RenewItem<null>): Promise<RenewAnswer> {
    const known = this.#desk.claims.get(request.id);
    if (known !== undefined && known.session !== link.sessionId) return { state: "lost", reason: "session" };
    const claim = this.#held(request, link);
    if (claim === null) return { state: "lost", reason: "gone" };
    const records = await Promise.all(
      claim.places.map((place, at) => {
        const used = lastFences[at] ?? fenceOf(place.czxid);
        const first = used === fenceOf(place.czxid);
        const { record } = place;
        if (record.label === label && (record.used ?? String(fenceOf(place.czxid))) === String(used))
          return this.#stateOf(link, place);
        return this.#write(link, place, ({ used: _old, ...rest }) =>
          first ? { ...rest, label } : { ...rest, label, used: String(used) },
        );
      }),
    );
    if (records.includes(null)) return { state: "lost", reason: "gone" };
    const revoked = records.find((record) => record?.revoked !== undefined)?.revoked;
    if (revoked !== undefined) return { state: "lost", reason: "revoked", detail: revoked };
    return { state: "renewed", validMs: Math.min(ttlMs, this.#longestMs()) };
  }

  /** The claim of a request that was granted in this session. */
  #held(request: Request, link: Link): Claim | null {
    const claim = this.#desk.claims.get(request.id);
    return claim?.granted === true && claim.session === link.sessionId ? claim : null;
  }

  async #stateOf(link: Link, place: Place): Promise<PlaceRecord | null> {
    const content = await orElse(link.send(getData(place.path)), null);
    if (content === null) return null;
    place.version = content.stat.version;
    place.record = readRecord(content.data);
    return place.record;
  }

  /** Changes the record of our own place, without undoing what an operator wrote into it. null when the place is gone. */
  async #write(
    link: Link,
    place: Place,
    change: (record: PlaceRecord) => PlaceRecord,
  ): Promise<PlaceRecord | null> {
    for (let tries = 1; ; tries += 1) {
      const record = change(place.record);
      try {
        const stat = await orElse(link.send(setData(place.path, writeRecord(record), place.version)), null);
        if (stat === null) return null;
        place.version = stat.version;
        place.record = record;
        return record;
      } catch (error) {
        if (!isCode(error, Code.badVersion) || tries === WRITE_TRIES) throw error;
        if ((await this.#stateOf(link, place)) === null) return null;
      }
    }
  }
}
