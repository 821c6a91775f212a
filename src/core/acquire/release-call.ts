// One release call: one object and the caller's promise. If the store does not confirm the release, the
// request is abandoned.

import { Call, callTimeoutMs, named } from "../util/store-call.ts";
import { isDisconnected, type LockError, StoreUnavailableError } from "../errors.ts";
import type { Hold } from "../lease/hold.ts";
import type { LockManager } from "./lock-manager.ts";
import { showKey } from "../key.ts";
import type { Io } from "../store.ts";

type Outcome = "released" | "not-held";

export class ReleaseCall extends Call {
  readonly #manager: LockManager;
  readonly #hold: Hold;
  readonly #fences: readonly bigint[];
  readonly #onEnd: (() => void) | null;
  readonly #resolve: (released: boolean) => void;
  readonly #reject: (error: LockError) => void;

  /** `onEnd`: called before the promise settles. */
  constructor(
    manager: LockManager,
    hold: Hold,
    onEnd: (() => void) | null,
    resolve: (released: boolean) => void,
    reject: (error: LockError) => void,
  ) {
    super(manager.system, "release", hold.request.keys[0], callTimeoutMs(hold.ttlMs));
    this.#manager = manager;
    this.#hold = hold;
    this.#fences = hold.fences;
    this.#onEnd = onEnd;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  start(): void {
    const yielded = this.#manager.caller.begin(this, this.#manager.system.monoMs());
    if (yielded === null) this.#send();
    else void yielded.then(() => this.#send());
  }

  protected override expired(error: LockError): void {
    this.#failed(error);
  }

  #send(): void {
    const { direct } = this.#manager.store;
    const { request, cookie, isPlain } = this.#hold;
    try {
      if (isPlain && direct !== undefined) {
        const settle = (error: unknown, outcome: Outcome | null): void => this.#settle(error, outcome);
        direct.release(request, cookie, this.#fences[0] as bigint, settle);
      } else {
        this.#run(this).then(
          (outcome) => this.#settle(null, outcome),
          (error: unknown) => this.#settle(error, null),
        );
      }
    } catch (error) {
      this.#settle(error, null);
    }
  }

  #run(io: Io): Promise<Outcome> {
    const { request, cookie } = this.#hold;
    return this.#manager.store.release(request, cookie, { lastFences: this.#fences }, io);
  }

  #settle(error: unknown, outcome: Outcome | null): void {
    const { caller } = this.#manager;
    if (outcome !== null) {
      if (!caller.answered(this)) return;
      this.#ended();
      this.#resolve(outcome === "released");
    } else if (isDisconnected(error) && this.list !== null) {
      // "not-held" may be the result of the first try, which has released the key.
      const settles = (again: Outcome): boolean => again === "released";
      caller
        .repeat(this, (io) => this.#run(io), error, settles)
        .then(
          (late) => this.#settle(null, late),
          (again: unknown) => this.#giveUp(again),
        );
    } else {
      this.#giveUp(error);
    }
  }

  #giveUp(error: unknown): void {
    if (this.#manager.caller.end(this)) this.#failed(error);
  }

  #failed(error: unknown): void {
    const key = this.#hold.request.keys[0] as string;
    this.#manager.holds.abandonment.add(this.#hold.request);
    this.#ended();
    const { message } = named(error, "release", key);
    const what = `the release of ${showKey(key)} could not be confirmed`;
    const unconfirmed = `${what}, so the key ends with its ttl at the latest: ${message}`;
    this.#reject(new StoreUnavailableError(unconfirmed, { key, cause: error }));
  }

  #ended(): void {
    this.#onEnd?.();
    this.#manager.releaseEnded();
  }
}
