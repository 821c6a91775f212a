// Adds one listener per signal for any number of waiting calls. A server that passes one shutdown signal
// to a thousand calls must not get Node's warning about a leak, and after the calls the signal must have
// no listeners.

const fans = new WeakMap<AbortSignal, Fan>();

class Fan {
  readonly #signal: AbortSignal;
  readonly #told = new Set<() => void>();
  readonly #ring = (): void => {
    for (const tell of [...this.#told]) tell();
  };

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  add(tell: () => void): void {
    if (this.#told.size === 0) this.#signal.addEventListener("abort", this.#ring, { once: true });
    this.#told.add(tell);
  }

  delete(tell: () => void): void {
    this.#told.delete(tell);
    if (this.#told.size === 0) this.#signal.removeEventListener("abort", this.#ring);
  }
}

/**
 * Calls `tell` when the signal aborts, or soon if it has already aborted. Returns a function that removes
 * it.
 */
export function onAbort(signal: AbortSignal, tell: () => void): () => void {
  if (signal.aborted) return soon(tell);
  let fan = fans.get(signal);
  if (fan === undefined) {
    fan = new Fan(signal);
    fans.set(signal, fan);
  }
  const own = fan;
  own.add(tell);
  return () => own.delete(tell);
}

function soon(tell: () => void): () => void {
  let wanted = true;
  // Not queueMicrotask, which Jest's fake timers delay.
  void Promise.resolve().then(() => {
    if (wanted) tell();
  });
  return () => {
    wanted = false;
  };
}

/** Whether an error only reports that this signal has aborted. */
export function isAbortOf(signal: AbortSignal, error: unknown): boolean {
  if (!signal.aborted) return false;
  if (error === signal.reason) return true;
  const { name, cause } = (error ?? {}) as { readonly name?: unknown; readonly cause?: unknown };
  return name === "AbortError" || cause === signal.reason;
}
