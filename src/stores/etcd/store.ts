// The contract on etcd: which part does what, and how their failures are told. A store never waits and never tries again on its
// own account: what it does not know it throws.

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
import { findings, refuseOld } from "./check.ts";
import { Claims, type Held } from "./claims.ts";
import type { Deps, Order } from "./deps.ts";
import { closedError, etcdError } from "./errors.ts";
import { etcdExclusiveGuarantees, etcdGuarantees } from "./guarantees.ts";
import { Holding } from "./holding.ts";
import { Leases } from "./leases.ts";
import { Names } from "./names.ts";
import type { EtcdPort } from "./port.ts";
import { revoke } from "./revoke.ts";
import { Sight } from "./sight.ts";
import { Waiting } from "./waiting.ts";
import { Watches } from "./watches.ts";

/** Enough to tell a handful of processes from each other. */
const PROC_LENGTH = 16;
/** After so long without a claim the streams end, so that a program which only locks can end without closing. */
const REST_MS = 500;
/** How long `close` waits for a cluster that does not answer. */
const CLOSE_MS = 1_000;

export class EtcdOpenStore implements OpenStore<Held> {
  readonly guarantees: Guarantees;
  readonly #deps: Deps;
  readonly #allow: readonly string[];
  readonly #attempts: Attempts;
  readonly #holding: Holding;
  readonly #waiting: Waiting;
  readonly #sight: Sight;
  #resting: (() => void) | null = null;
  #closed = false;

  private constructor(port: EtcdPort, order: Order, { system, namespace, allow }: StoreEnv) {
    this.guarantees = order === "fifo" ? etcdGuarantees : etcdExclusiveGuarantees;
    this.#allow = allow;
    const names = new Names(namespace);
    this.#deps = {
      port,
      system,
      names,
      leases: new Leases(port, system),
      claims: new Claims(system),
      watches: new Watches(port),
      order,
      proc: system.randomId().slice(0, PROC_LENGTH),
    };
    this.#holding = new Holding(this.#deps);
    this.#waiting = new Waiting(this.#deps);
    this.#attempts = new Attempts(this.#deps, this.#holding, this.#waiting);
    this.#sight = new Sight(this.#deps);
  }

  static async open(port: EtcdPort, order: Order, env: StoreEnv): Promise<EtcdOpenStore> {
    try {
      const version = await port.version({ signal: new AbortController().signal });
      // Servers that keep it from users are younger than any that is too old.
      if (version !== null) refuseOld(version);
      return new EtcdOpenStore(port, order, env);
    } catch (error) {
      port.close();
      throw etcdError(error, "be opened");
    }
  }

  attempt(request: Request, io: Io): Promise<AttemptAnswer<Held>> {
    return this.#do("try for the lock", request.keys[0], async () => {
      const claim = this.#deps.claims.open(request);
      if (claim === null) return this.#undoEnded(request, io);
      claim.seenMs = this.#deps.system.monoMs();
      this.#waiting.listen();
      return this.#attempts.run(claim, io);
    });
  }

  /**
   * The id has ended. Where the cluster has not acknowledged that, its names may be there and hang on a lease
   * that others of this process renew: they would block the key for as long as those live (P11).
   */
  async #undoEnded(request: Request, io: Io): Promise<AttemptAnswer<Held>> {
    const claim = this.#deps.claims.get(request.id);
    if (claim !== undefined) await this.#holding.end(claim, null, io);
    return { ended: true };
  }

  renew(items: readonly RenewItem<Held>[], io: Io): Promise<readonly RenewAnswer[]> {
    return this.#do("renew the lease", items[0]?.request.keys[0], () => {
      this.#waiting.listen();
      return this.#holding.renew(items, io);
    });
  }

  release(
    request: Request,
    cookie: Held,
    _options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    return this.#do("be told of the release", request.keys[0], async () => {
      const held = this.#deps.claims.get(request.id)?.held ?? null;
      const own = cookie?.id === request.id ? held : null;
      const claim = this.#deps.claims.end(request);
      return (await this.#holding.end(claim, own, io)) ? "released" : "not-held";
    });
  }

  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    return abandonEach(requests, io, (request) =>
      this.#do("be told of the end of a request", request.keys[0], async () => {
        const claim = this.#deps.claims.end(request);
        if (claim.isUntouched) this.#deps.claims.forget(claim);
        else await this.#holding.end(claim, null, io);
      }),
    );
  }

  forgetUnsent(request: Request): boolean {
    const claim = this.#deps.claims.get(request.id);
    if (claim === undefined || !claim.isUntouched) return false;
    this.#deps.claims.forget(this.#deps.claims.end(request));
    return true;
  }

  forget(request: Request): void {
    this.#deps.claims.forget(this.#deps.claims.end(request));
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    return Promise.resolve(this.#waiting.subscribe(request, wake));
  }

  onLoss(tell: (id: string, reason: LossReason, detail?: string) => void): () => void {
    return this.#waiting.onLoss(tell);
  }

  owns(request: Request, cookie: Held, io: Io): Promise<boolean> {
    return this.#do("be asked for the owner", request.keys[0], () => this.#holding.owns(request, cookie, io));
  }

  note(request: Request, _cookie: Held, note: Note, io: Io): Promise<void> {
    return this.#do("write the note", request.keys[0], () => this.#holding.note(request, note, io));
  }

  inspect(key: string, io: Io): Promise<LockInfo | null> {
    return this.#do("be asked who holds the lock", key, () => this.#sight.inspect(key, io));
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    if (this.#closed) throw closedError();
    try {
      yield* this.#sight.list(options.prefix, options.limit, io);
    } catch (error) {
      throw etcdError(error, "list the locks");
    }
  }

  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    const { port, names } = this.#deps;
    return this.#do("revoke the lock", key, () =>
      revoke({ port, names, sight: this.#sight }, key, options, io),
    );
  }

  check(io: Io): Promise<readonly Finding[]> {
    return this.#do("be checked", undefined, async () =>
      findings(await this.#deps.port.facts(io), this.#allow),
    );
  }

  /** Ends the leases, and with them every place of this process; kept records have leases of their own. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#resting?.();
    const { leases, watches, port, system } = this.#deps;
    watches.close();
    const patience = system.abortController?.() ?? new AbortController();
    const cancel = system.after(CLOSE_MS, () => patience.abort());
    try {
      await leases.revokeAll(patience);
    } catch {
      // They end by themselves, in their time.
    } finally {
      cancel();
      port.close();
    }
  }

  async #do<T>(doing: string, key: string | undefined, work: () => Promise<T>): Promise<T> {
    if (this.#closed) throw closedError(key);
    try {
      return await work();
    } catch (error) {
      throw etcdError(error, doing, key);
    } finally {
      if (this.#deps.claims.size === 0) this.#rest();
    }
  }

  /** Unless somebody comes, the streams are ended a little later. */
  #rest(): void {
    if (this.#closed || this.#resting !== null) return;
    const { claims, watches, port, system } = this.#deps;
    this.#resting = system.after(
      REST_MS,
      () => {
        this.#resting = null;
        if (claims.size > 0) return;
        watches.rest();
        port.rest();
      },
      "background",
    );
  }
}
