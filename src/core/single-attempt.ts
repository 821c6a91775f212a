// One attempt for callers that do not wait. It leaves no place in line, whatever the answer.

import type { TurnDeps } from "./acquire.ts";
import type { Actor } from "./actor.ts";
import { callTimeoutMs } from "./call.ts";
import { isUnsent, type LockError, StoreUnavailableError } from "./errors.ts";
import type { Hold } from "./hold.ts";
import { showKey } from "./key.ts";
import type { Wish } from "./options.ts";
import { makeRequest, type TurnWish, unconfirmedError } from "./request.ts";
import type { Busy, Request } from "./store.ts";

/** A hold, or who has the key. */
type Answer = { readonly hold: Hold } | { readonly busy: Busy };

export class SingleAttempt {
  readonly actor: Actor;
  readonly #deps: TurnDeps;
  readonly #wish: TurnWish;
  readonly #request: Request;
  #stopped: LockError | null = null;
  #reject: (error: LockError) => void = () => {};

  constructor(deps: TurnDeps, keys: readonly string[], wish: Wish, actor: Actor) {
    this.actor = actor;
    this.#deps = deps;
    this.#wish = { keys, shape: wish, label: wish.label, actor: actor.name };
    this.#request = makeRequest(this.#wish, deps.system.randomId(), 1, false);
  }

  get keys(): readonly string[] {
    return this.#request.keys;
  }

  run(): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      this.#send().then(resolve, reject);
    });
  }

  /** Rejects now. The store is told to forget the attempt, whatever it has made of it. */
  stop(error: LockError): void {
    this.#stopped = error;
    this.#deps.holds.abandonment.add(this.#request);
    this.#reject(error);
  }

  async #send(): Promise<Answer> {
    const { caller, holds, store } = this.#deps;
    const request = this.#request;
    const sentAt = holds.now();
    try {
      const answer = await caller.call(
        "acquire",
        request.keys[0],
        callTimeoutMs(request.ttlMs),
        (io) => store.attempt(request, io),
        // After any other answer the first try may still be granted, and nobody would release that grant.
        (said) => "granted" in said,
      );
      if (this.#stopped !== null) throw this.#stopped;
      if ("busy" in answer) return answer;
      if ("unconfirmed" in answer) throw unconfirmedError(request, answer.unconfirmed.why);
      const hold =
        "granted" in answer ? holds.begin(request, this.#wish.shape, answer.granted, sentAt) : null;
      if (hold !== null) return { hold };
      throw new StoreUnavailableError(
        `the store's answer about ${showKey(request.keys[0] as string)} came too late`,
      );
    } catch (error) {
      // Whether it was granted is unknown: it is not held (P8), and the store is told until it knows that
      // too.
      if (isUnsent(error)) store.forget?.(request);
      else if (this.#stopped === null) holds.abandonment.add(request);
      throw error;
    }
  }
}
