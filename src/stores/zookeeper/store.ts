// The contract on a ZooKeeper ensemble: places in line are ephemeral nodes in the order of their making, and the first of them
// hold. What keeps them is the session; what a holder may believe is counted from requests that the leader has answered for.

import type {
  AttemptAnswer,
  Finding,
  Guarantees,
  Io,
  LockInfo,
  LossReason,
  Note,
  OpenStore,
  ReleaseOptions,
  RenewAnswer,
  RenewItem,
  Request,
  RevokeAnswer,
  RevokeOptions,
  StoreEnv,
} from "../../core/store.ts";
import { abandonEach } from "../shared/abandon-each.ts";
import { Attempts } from "./attempts.ts";
import { findings } from "./check.ts";
import { Desk } from "./desk.ts";
import { closedError, zookeeperError } from "./errors.ts";
import { zookeeperGuarantees } from "./guarantees.ts";
import { Holdings } from "./holdings.ts";
import { Kept } from "./kept.ts";
import { Looks } from "./looks.ts";
import { Mailbox } from "./mailbox.ts";
import { Paths } from "./names.ts";
import { Places } from "./places.ts";
import type { Link } from "./port.ts";
import type { Settings } from "./settings.ts";
import type { WatchEvent } from "./wire/connection.ts";
import { OPEN_ACL, OWN_ACL } from "./wire/ops.ts";
import { Session } from "./wire/session.ts";

type Tell = (id: string, reason: LossReason, detail?: string) => void;

export class ZooKeeperOpenStore implements OpenStore<null> {
  readonly #settings: Settings;
  readonly #session: Session;
  readonly #desk: Desk;
  readonly #kept: Kept;
  readonly #mailbox: Mailbox;
  readonly #looks: Looks;
  readonly #holdings: Holdings;
  readonly #places: Places;
  readonly #attempts: Attempts;
  readonly #wakes = new Map<string, () => void>();
  #tellLoss: Tell | null = null;
  #opened = false;
  #closed = false;
  #guarantees: Guarantees | null = null;

  private constructor(settings: Settings, env: StoreEnv) {
    this.#settings = settings;
    const { servers, sessionMs, tls, digest, chroot } = settings;
    this.#session = new Session(
      { servers, timeoutMs: sessionMs, tls, digest, system: env.system },
      { begun: () => this.#begun(), expired: () => this.#expired(), event: (event) => this.#event(event) },
    );
    const acl = digest === null ? OPEN_ACL : OWN_ACL;
    this.#desk = new Desk(this.#session, new Paths(chroot, env.namespace), acl, env.system);
    this.#kept = new Kept(this.#desk);
    this.#mailbox = new Mailbox(this.#desk);
    this.#looks = new Looks(this.#desk, this.#kept, this.#mailbox);
    const longestMs = (): number => this.guarantees.longestMs ?? 0;
    this.#holdings = new Holdings(this.#desk, longestMs);
    this.#places = new Places(this.#desk);
    this.#attempts = new Attempts(this.#desk, this.#places, this.#kept, this.#looks, longestMs);
  }

  static async open(settings: Settings, env: StoreEnv): Promise<ZooKeeperOpenStore> {
    const store = new ZooKeeperOpenStore(settings, env);
    try {
      await store.#session.opened();
      await store.#mailbox.open(await store.#desk.link({ signal: new AbortController().signal }));
      store.#opened = true;
      return store;
    } catch (error) {
      await store.close();
      throw zookeeperError(error, "be opened");
    }
  }

  /** By the timeout that the server has agreed to, which may be another than was asked for. */
  get guarantees(): Guarantees {
    this.#guarantees ??= zookeeperGuarantees(this.#session.timeoutMs);
    return this.#guarantees;
  }

  attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    return this.#do("try for the lock", request.keys[0], () => this.#attempts.attempt(request, io));
  }

  renew(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    if (items.length === 0) return Promise.resolve([]);
    return this.#do("renew the lease", items[0]?.request.keys[0], async () => {
      const link = await this.#desk.link(io);
      const answers = await this.#holdings.renew(link, items);
      await this.#mailbox.open(link);
      return answers;
    });
  }

  release(
    request: Request,
    _cookie: null,
    _options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    this.#desk.end(request.id);
    return this.#do("be told of the release", request.keys[0], async () => {
      const claim = this.#desk.claims.get(request.id);
      const held = claim?.granted === true;
      const left = await this.#end(request, io);
      return held && left ? "released" : "not-held";
    });
  }

  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    for (const { id } of requests) this.#desk.end(id);
    return abandonEach(requests, io, (request) =>
      this.#do("be told of the end", request.keys[0], () => this.#end(request, io)),
    );
  }

  forget(request: Request): void {
    this.#desk.end(request.id);
    const claim = this.#desk.claims.get(request.id);
    if (claim !== undefined) this.#desk.claims.forget(claim);
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    this.#wakes.set(request.id, wake);
    return Promise.resolve(() => this.#wakes.delete(request.id));
  }

  onLoss(tell: Tell): () => void {
    this.#tellLoss = tell;
    return () => {
      this.#tellLoss = null;
    };
  }

  owns(request: Request, _cookie: null, io: Io): Promise<boolean> {
    return this.#do("be asked for the owner", request.keys[0], async () =>
      this.#holdings.owns(await this.#desk.link(io), request),
    );
  }

  note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    return this.#do("write the note", request.keys[0], async () =>
      this.#holdings.note(await this.#desk.link(io), request, note),
    );
  }

  inspect(key: string, io: Io): Promise<LockInfo | null> {
    return this.#do("be asked who holds the lock", key, () => this.#looks.inspect(key, io));
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    if (this.#closed) throw closedError();
    try {
      yield* this.#looks.list(options, io);
    } catch (error) {
      throw zookeeperError(error, "list the locks");
    }
  }

  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    return this.#do("revoke the lock", key, () => this.#looks.revoke(key, options, io));
  }

  check(io: Io): Promise<readonly Finding[]> {
    return this.#do("be checked", undefined, async () => {
      const link = await this.#desk.link(io);
      return await findings(link, this.#settings, this.#session.timeoutMs, this.#desk.system);
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#wakes.clear();
    await this.#session.close();
  }

  /** Deletes what is there of a request, whether it held, waited, or nobody knows. True when all of it was there. */
  async #end(request: Request, io: Io): Promise<boolean> {
    const claim = this.#desk.claims.get(request.id);
    if (claim === undefined) return false;
    const link = await this.#desk.link(io);
    await claim.making?.catch(() => {});
    if (claim.session !== link.sessionId) {
      // The server has ended the session, and with it every place of it.
      this.#desk.claims.forget(claim);
      return false;
    }
    if (claim.places.length === 0) claim.places = await this.#places.find(link, claim, request.keys);
    const left = await this.#desk.leave(link, claim);
    await this.#kept.releaseOld(link, claim, request);
    return left;
  }

  #begun(): void {
    const link = this.#session.link;
    // The first one is made by `open`. If this fails the next renewal makes it.
    if (link !== null && this.#opened) this.#mailbox.open(link).catch(() => {});
    for (const wake of this.#wakes.values()) wake();
  }

  #expired(): void {
    for (const claim of this.#desk.claims.granted()) this.#tellLoss?.(claim.id, "session");
  }

  #event({ kind, path }: WatchEvent): void {
    if (kind === "deleted") for (const claim of this.#desk.claims.ended(path)) this.#wakes.get(claim.id)?.();
    const link = this.#session.link;
    if (kind !== "changed" || link === null || !this.#mailbox.isMine(path, link.sessionId)) return;
    // Missed news are found by the next renewal.
    this.#readMail(link).catch(() => {});
  }

  async #readMail(link: Link): Promise<void> {
    const news = await this.#mailbox.read(link);
    for (const claim of this.#desk.claims.granted()) {
      const records = await this.#holdings.records(link, claim);
      const about = claim.places.some(({ path }) => path === news?.path) ? news?.reason : undefined;
      const revoked = records.find((record) => record?.revoked !== undefined)?.revoked;
      if (revoked !== undefined) this.#tellLoss?.(claim.id, "revoked", revoked);
      else if (records.includes(null) && !this.#desk.hasEnded(claim.id))
        this.#tellLoss?.(claim.id, about === undefined ? "gone" : "revoked", about);
    }
  }

  async #do<T>(doing: string, key: string | undefined, run: () => Promise<T>): Promise<T> {
    if (this.#closed) throw closedError(key);
    try {
      return await run();
    } catch (error) {
      throw zookeeperError(error, doing, key);
    }
  }
}
