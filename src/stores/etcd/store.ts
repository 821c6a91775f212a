// The store contract on etcd. Each method hands over to one part and translates its errors. A store never
// waits and never retries on its own: if it does not know an outcome, it throws.

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
import type { EtcdClient } from "./cluster/cluster.ts";
import { closedError, etcdError } from "./errors.ts";
import { etcdExclusiveGuarantees, etcdGuarantees } from "./guarantees.ts";
import { findings, rejectOldVersion } from "./health.ts";
import { HeldKeys } from "./held-keys.ts";
import { Inspector } from "./inspect.ts";
import { Keys } from "./keys.ts";
import { Leases } from "./leases.ts";
import { Notifications, Watches } from "./notifications.ts";
import type { Order } from "./options.ts";
import { type Held, OpenRequests, type StoreContext } from "./requests.ts";

const STORE_ID_DIGITS = 16;
/** Streams end after so long without a request, so that a process can exit without closing the store. */
const IDLE_MS = 500;
/** How long `close` waits for a cluster that does not answer. */
const CLOSE_MS = 1_000;

export class EtcdOpenStore implements OpenStore<Held> {
  readonly guarantees: Guarantees;
  readonly #context: StoreContext;
  readonly #allow: readonly string[];
  readonly #acquire: Acquire;
  readonly #heldKeys: HeldKeys;
  readonly #notifications: Notifications;
  readonly #inspector: Inspector;
  #cancelIdle: (() => void) | null = null;
  #isClosed = false;

  private constructor(client: EtcdClient, order: Order, { system, namespace, allow }: StoreEnv) {
    this.guarantees = order === "fifo" ? etcdGuarantees : etcdExclusiveGuarantees;
    this.#allow = allow;
    this.#context = {
      client,
      system,
      keys: new Keys(namespace),
      leases: new Leases(client, system),
      requests: new OpenRequests(system),
      watches: new Watches(client),
      order,
      storeId: system.randomId().slice(0, STORE_ID_DIGITS),
    };
    this.#heldKeys = new HeldKeys(this.#context);
    this.#notifications = new Notifications(this.#context);
    this.#acquire = new Acquire(this.#context, this.#heldKeys, this.#notifications);
    this.#inspector = new Inspector(this.#context);
  }

  static async open(client: EtcdClient, order: Order, env: StoreEnv): Promise<EtcdOpenStore> {
    try {
      const version = await client.version({ signal: NEVER_ABORTED });
      // Servers that hide it from users are newer than all that are too old.
      if (version !== null) rejectOldVersion(version);
      return new EtcdOpenStore(client, order, env);
    } catch (error) {
      client.close();
      throw etcdError(error, "be opened");
    }
  }

  attempt(request: Request, io: Io): Promise<AttemptAnswer<Held>> {
    return this.#call("try for the lock", request.keys[0], () => {
      const open = this.#context.requests.open(request);
      if (open === null) return this.#removeEnded(request, io);
      open.attemptedAtMs = this.#context.system.monoMs();
      this.#notifications.inbox.listen();
      return this.#acquire.attempt(open, io);
    });
  }

  /**
   * The id has ended. If the cluster has not acknowledged that, its queue keys may exist, on a lease that
   * other requests of this process renew. They would block the key for as long as those live (P11).
   */
  async #removeEnded(request: Request, io: Io): Promise<AttemptAnswer<Held>> {
    const open = this.#context.requests.get(request.id);
    if (open !== undefined) await this.#heldKeys.remove(open, null, io);
    return { ended: true };
  }

  renew(items: readonly RenewItem<Held>[], io: Io): Promise<readonly RenewAnswer[]> {
    return this.#call("renew the lease", items[0]?.request.keys[0], () => {
      this.#notifications.inbox.listen();
      return this.#heldKeys.renew(items, io);
    });
  }

  release(
    request: Request,
    cookie: Held,
    _options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    return this.#call("release the lock", request.keys[0], async () => {
      const { requests } = this.#context;
      const held = requests.get(request.id)?.held ?? null;
      const own = cookie?.id === request.id ? held : null;
      return (await this.#heldKeys.remove(requests.end(request), own, io)) ? "released" : "not-held";
    });
  }

  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    return abandonEach(requests, io, (request) =>
      this.#call("end a request", request.keys[0], async () => {
        const open = this.#context.requests.end(request);
        if (open.isUntouched) this.#context.requests.forget(open);
        else await this.#heldKeys.remove(open, null, io);
      }),
    );
  }

  forgetUnsent(request: Request): boolean {
    if (this.#context.requests.get(request.id)?.isUntouched !== true) return false;
    this.forget(request);
    return true;
  }

  forget(request: Request): void {
    this.#context.requests.forget(this.#context.requests.end(request));
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    return Promise.resolve(this.#notifications.subscribe(request, wake));
  }

  onLoss(report: (id: string, reason: LossReason, detail?: string) => void): () => void {
    return this.#notifications.inbox.onLoss(report);
  }

  owns(request: Request, cookie: Held, io: Io): Promise<boolean> {
    return this.#call("verify the owner", request.keys[0], () => this.#heldKeys.owns(request, cookie, io));
  }

  note(request: Request, _cookie: Held, note: Note, io: Io): Promise<void> {
    return this.#call("write the note", request.keys[0], () => this.#heldKeys.note(request, note, io));
  }

  inspect(key: string, io: Io): Promise<LockInfo | null> {
    return this.#call("inspect the lock", key, () => this.#inspector.inspect(key, io));
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    if (this.#isClosed) throw closedError();
    try {
      yield* this.#inspector.list(options.prefix, options.limit, io);
    } catch (error) {
      throw etcdError(error, "list the locks");
    }
  }

  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    return this.#call("revoke the lock", key, () => this.#inspector.revoke(key, options, io));
  }

  check(io: Io): Promise<readonly Finding[]> {
    return this.#call("be checked", undefined, async () =>
      findings(await this.#context.client.facts(io), this.#allow),
    );
  }

  /**
   * Ends the leases, and with them every queue key of this process. Kept records have leases of their own.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelIdle?.();
    this.#notifications.inbox.close();
    const { leases, watches, client, system } = this.#context;
    watches.close();
    const timeout = system.abortController?.() ?? new AbortController();
    const cancel = system.after(CLOSE_MS, () => timeout.abort());
    try {
      await leases.revokeAll(timeout);
    } catch {
      // They expire by themselves.
    } finally {
      cancel();
      client.close();
    }
  }

  /** `doing` completes "etcd could not". */
  async #call<T>(doing: string, key: string | undefined, run: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw closedError(key);
    try {
      return await run();
    } catch (error) {
      throw etcdError(error, doing, key);
    } finally {
      if (this.#context.requests.size === 0) this.#startIdle();
    }
  }

  /** Unless a request comes, the streams end a little later. */
  #startIdle(): void {
    if (this.#isClosed || this.#cancelIdle !== null) return;
    const { requests, watches, client, system } = this.#context;
    this.#cancelIdle = system.after(
      IDLE_MS,
      () => {
        this.#cancelIdle = null;
        if (requests.size > 0) return;
        watches.disconnect();
        client.endIdleStreams();
      },
      "background",
    );
  }
}
