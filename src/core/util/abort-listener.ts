// Adds one listener per signal for any number of waiting calls. A server that passes one shutdown signal
// to a thousand calls must not get Node's warning about a leak, and after the calls the signal must have
// no listeners.

const sharedListeners = new WeakMap<AbortSignal, SharedListener>();

class SharedListener {
  readonly #signal: AbortSignal;
  readonly #listeners = new Set<() => void>();
  readonly #notifyAll = (): void => {
    for (const listener of [...this.#listeners]) listener();
  };

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  add(listener: () => void): void {
    if (this.#listeners.size === 0) this.#signal.addEventListener("abort", this.#notifyAll, { once: true });
    this.#listeners.add(listener);
  }

  delete(listener: () => void): void {
    this.#listeners.delete(listener);
    if (this.#listeners.size === 0) this.#signal.removeEventListener("abort", this.#notifyAll);
  }
}

/**
 * Calls `listener` when the signal aborts, or soon if it has already aborted. Returns a function that removes
 * it.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  if (signal.aborted) return callSoon(listener);
  let shared = sharedListeners.get(signal);
  if (shared === undefined) {
    shared = new SharedListener(signal);
    sharedListeners.set(signal, shared);
  }
  const own = shared;
  own.add(listener);
  return () => own.delete(listener);
}

function callSoon(listener: () => void): () => void {
  let wanted = true;
  // Not queueMicrotask, which Jest's fake timers delay.
  void Promise.resolve().then(() => {
    if (wanted) listener();
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
