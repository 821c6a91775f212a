// Places in line: how they are made, and how they are found again when nobody knows whether they were made. All places of one
// request are made in one step (P9), and never by a request that has ended meanwhile (P8).

import type { Request } from "../../core/store.ts";
import type { Claim, Place } from "./claims.ts";
import { type Desk, orElse, quietly, valuesOf } from "./desk.ts";
import { readLine } from "./line.ts";
import { placeName, readName, sessionName } from "./names.ts";
import type { Link } from "./port.ts";
import { newRecord, readRecord, writeRecord } from "./record.ts";
import { Code, ConnectionLost, isCode } from "./wire/errors.ts";
import {
  create,
  createPath,
  type CreateWish,
  exists,
  Flags,
  getChildren,
  getData,
  multi,
  type Stat,
} from "./wire/ops.ts";

/** A container may be cleared away between its making and its use. */
const MAKE_TRIES = 5;

export class Places {
  readonly #desk: Desk;

  constructor(desk: Desk) {
    this.#desk = desk;
  }

  /** The names of the line with our places in it, or null when the request has ended meanwhile. */
  async make(link: Link, claim: Claim, request: Request): Promise<string[][] | null> {
    const making = this.#tryToMake(link, claim, request);
    claim.making = making;
    try {
      return await making;
    } catch (error) {
      // Made, or unknown: the claim stays, so that the place is searched for. A no of the server is a no.
      if (!(error instanceof ConnectionLost) && claim.places.length === 0) this.#desk.claims.forget(claim);
      throw error;
    } finally {
      claim.making = null;
    }
  }

  async #tryToMake(link: Link, claim: Claim, request: Request): Promise<string[][] | null> {
    for (let tries = 1; ; tries += 1) {
      if (this.#desk.hasEnded(request.id)) return null;
      try {
        return await (request.keys.length === 1
          ? this.#makeOne(link, claim, request)
          : this.#makeAll(link, claim, request));
      } catch (error) {
        if (!isCode(error, Code.noNode) || tries === MAKE_TRIES) throw error;
        for (const key of request.keys) await this.#desk.ensureKey(link, key);
      }
    }
  }

  async #makeOne(link: Link, claim: Claim, request: Request): Promise<string[][]> {
    const container = this.#desk.paths.key(request.keys[0] as string);
    const made = link.send(create(this.#wish(request, claim, container)));
    const names = quietly(link.send(getChildren(container)));
    const { path, stat } = await made;
    claim.places = [this.#place(request, 0, path, stat)];
    return [await names];
  }

  async #makeAll(link: Link, claim: Claim, request: Request): Promise<string[][] | null> {
    const containers = request.keys.map((key) => this.#desk.paths.key(key));
    const ops = containers.map((container) => createPath(this.#wish(request, claim, container)));
    const paths = valuesOf(await link.send(multi(ops))) as string[];
    const asked = paths.map((path) => orElse(link.send(exists(path)), null));
    const names = quietly(Promise.all(containers.map((container) => link.send(getChildren(container)))));
    const stats = await Promise.all(asked);
    claim.places = stats.flatMap((stat, at) =>
      stat === null ? [] : this.#place(request, at, paths[at] as string, stat),
    );
    return (await this.#whole(link, claim, request)) ? names : null;
  }

  #wish(request: Request, claim: Claim, container: string): CreateWish {
    const path = `${container}/${placeName(request, sessionName(claim.session))}`;
    const data = writeRecord(newRecord(request));
    return { path, data, acl: this.#desk.acl, flags: Flags.ephemeralSequential };
  }

  #place(request: Request, at: number, path: string, { czxid, version }: Stat): Place {
    const key = request.keys[at] as string;
    const entry = readName(path.slice(path.lastIndexOf("/") + 1), key);
    return { key, path, entry, czxid, version, record: newRecord(request) };
  }

  /** The names of the line, with the places that were made after all or are made now, or null when the request has ended. */
  async findOrMake(link: Link, claim: Claim, request: Request): Promise<string[][] | null> {
    const places = await this.find(link, claim, request.keys);
    if (places.length === 0) return this.make(link, claim, request);
    claim.places = places;
    return (await this.#whole(link, claim, request)) ? this.#desk.lists(link, request.keys) : null;
  }

  /** All keys or none (P9): where somebody has taken one of the places away, the request is over and the others go too. */
  async #whole(link: Link, claim: Claim, request: Request): Promise<boolean> {
    if (claim.places.length === request.keys.length) return true;
    this.#desk.end(request.id);
    await this.#desk.leave(link, claim);
    return false;
  }

  async find(link: Link, claim: Claim, keys: readonly string[]): Promise<Place[]> {
    const synced = this.#desk.sync(link);
    const lists = await this.#desk.lists(link, keys);
    await synced;
    const session = sessionName(claim.session);
    const found = keys.map(async (key, at) => {
      const entries = readLine(lists[at] ?? [], key).entries;
      const entry = entries.find((one) => !one.kept && one.id === claim.id && one.session === session);
      if (entry === undefined) return [];
      const path = `${this.#desk.paths.key(key)}/${entry.name}`;
      const content = await orElse(link.send(getData(path)), null);
      if (content === null || content.stat.ephemeralOwner !== claim.session) return [];
      const { czxid, version } = content.stat;
      return { key, path, entry, czxid, version, record: readRecord(content.data) };
    });
    return (await Promise.all(found)).flat();
  }
}
