// The store contract on a ZooKeeper ensemble. Requests are ephemeral nodes in the order of their creation,
// and the first of them hold. The session keeps them. A window counts from requests that the leader has
// confirmed.

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
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import { Acquire } from "./acquire.ts";
import { StoreContext } from "./context.ts";
import { closedError, zookeeperError } from "./errors.ts";
import { zookeeperGuarantees } from "./guarantees.ts";
import { findings } from "./health.ts";
import { HeldNodes } from "./held-nodes.ts";
import { Inspector } from "./inspect.ts";
import { MinHold } from "./min-hold.ts";
import { Notifications } from "./notifications.ts";
import type { Settings } from "./options.ts";
import { Paths } from "./paths.ts";
import { QueueNodes } from "./queue-nodes.ts";
import { OPEN_ACL, OWN_ACL } from "./wire/ops.ts";
import { Session } from "./wire/session.ts";

export class ZooKeeperOpenStore implements OpenStore<null> {
  readonly #settings: Settings;
  readonly #session: Session;
  readonly #context: StoreContext;
  readonly #acquire: Acquire;
  readonly #heldNodes: HeldNodes;
  readonly #notifications: Notifications;
  readonly #inspector: Inspector;
  #isClosed = false;
  #guarantees: Guarantees | null = null;

  private constructor(settings: Settings, { system, namespace }: StoreEnv) {
    this.#settings = settings;
    const { servers, sessionMs, tls, digest, chroot } = settings;
    this.#session = new Session(
      { servers, timeoutMs: sessionMs, tls, digest, system },
      {
        started: () => this.#notifications.sessionStarted(),
        expired: () => this.#notifications.sessionExpired(),
        event: (event) => this.#notifications.receive(event),
      },
    );
    const acl = digest === null ? OPEN_ACL : OWN_ACL;
    const paths = new Paths(chroot, namespace);
    const longestMs = (): number => this.guarantees.longestMs ?? 0;
    this.#context = new StoreContext(this.#session, paths, acl, system, longestMs);
    const minHold = new MinHold(this.#context);
    const queueNodes = new QueueNodes(this.#context);
    this.#inspector = new Inspector(this.#context, minHold);
    this.#heldNodes = new HeldNodes(this.#context, queueNodes, minHold);
    this.#notifications = new Notifications(this.#context, this.#heldNodes);
    this.#acquire = new Acquire(this.#context, queueNodes, minHold, this.#inspector);
  }

  static async open(settings: Settings, env: StoreEnv): Promise<ZooKeeperOpenStore> {
    const store = new ZooKeeperOpenStore(settings, env);
    try {
      await store.#notifications.open(await store.#session.ready(NEVER_ABORTED));
      return store;
    } catch (error) {
      await store.close();
      throw zookeeperError(error, "be opened");
    }
  }

  /** They follow from the timeout that the server negotiated, which may differ from the one asked for. */
  get guarantees(): Guarantees {
    this.#guarantees ??= zookeeperGuarantees(this.#session.timeoutMs);
    return this.#guarantees;
  }

  attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    return this.#call("try for the lock", request.keys[0], () => this.#acquire.attempt(request, io));
  }

  renew(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    if (items.length === 0) return Promise.resolve([]);
    return this.#call("renew the lease", items[0]?.request.keys[0], async () => {
      const connection = await this.#context.connect(io);
      const answers = await this.#heldNodes.renew(connection, items);
      await this.#notifications.open(connection);
      return answers;
    });
  }

  release(
    request: Request,
    _cookie: null,
    _options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    this.#context.end(request.id);
    return this.#call("release the lock", request.keys[0], async () => {
      const isHeld = this.#context.requests.get(request.id)?.isGranted === true;
      return (await this.#heldNodes.remove(request, io)) && isHeld ? "released" : "not-held";
    });
  }

  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    for (const { id } of requests) this.#context.end(id);
    return abandonEach(requests, io, (request) =>
      this.#call("end a request", request.keys[0], () => this.#heldNodes.remove(request, io)),
    );
  }

  forget(request: Request): void {
    this.#context.end(request.id);
    const open = this.#context.requests.get(request.id);
    if (open !== undefined) this.#context.requests.forget(open);
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    return Promise.resolve(this.#notifications.subscribe(request, wake));
  }

  onLoss(report: (id: string, reason: LossReason, detail?: string) => void): () => void {
    return this.#notifications.onLoss(report);
  }

  owns(request: Request, _cookie: null, io: Io): Promise<boolean> {
    return this.#call("verify the owner", request.keys[0], async () =>
      this.#heldNodes.owns(await this.#context.connect(io), request),
    );
  }

  note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    return this.#call("write the note", request.keys[0], async () =>
      this.#heldNodes.note(await this.#context.connect(io), request, note),
    );
  }

  inspect(key: string, io: Io): Promise<LockInfo | null> {
    return this.#call("inspect the lock", key, () => this.#inspector.inspect(key, io));
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    if (this.#isClosed) throw closedError();
    try {
      yield* this.#inspector.list(options, io);
    } catch (error) {
      throw zookeeperError(error, "list the locks");
    }
  }

  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    return this.#call("revoke the lock", key, () => this.#inspector.revoke(key, options, io));
  }

  check(io: Io): Promise<readonly Finding[]> {
    return this.#call("be checked", undefined, async () => {
      const connection = await this.#context.connect(io);
      return findings(connection, this.#settings, this.#session.timeoutMs, this.#context.system);
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#notifications.close();
    await this.#session.close();
  }

  /** `doing` completes "ZooKeeper could not". */
  async #call<T>(doing: string, key: string | undefined, run: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw closedError(key);
    try {
      return await run();
    } catch (error) {
      throw zookeeperError(error, doing, key);
    }
  }
}
