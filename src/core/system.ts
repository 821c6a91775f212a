// The only access of core and of the stores to clocks, timers and randomness, so that the simulator can
// run them in virtual time from one seed. Types only.

/** One moment on three clocks, in ms. Compare only values of the same clock. */
export interface Instant {
  /**
   * The monotonic clock. It never jumps, and stops while the machine is suspended. All processes share
   * it.
   */
  readonly monoMs: number;
  /** The boot clock. As the monotonic clock, but it also runs during suspend. May be coarse. */
  readonly bootMs: number;
  /** The wall clock. It may be set at any time. */
  readonly wallMs: number;
}

/** The clocks, timers and random numbers of the runtime. */
export interface System {
  now(): Instant;
  monoMs(): number;
  wallMs(): number;
  /**
   * Runs `fn` once after `ms`, which may be Infinity. A background timer does not keep the process alive.
   * Returns a function that cancels the timer.
   */
  after(ms: number, fn: () => void, kind?: "background"): () => void;
  /** Changes the number of calls that keep the process alive. */
  pending(change: 1 | -1): void;
  /**
   * Calls `listener` when the process has nothing left to do and would exit. Returns a function that
   * removes it.
   */
  beforeExit?(listener: () => void): () => void;
  /**
   * For the signal of a call. It allows any number of listeners, because all requests of a batch listen
   * to it.
   */
  abortController?(): AbortController;
  /** Resolves after one turn of the event loop. */
  yield(): Promise<void>;
  /** 128 random bits in hex. */
  randomId(): string;
  /** A number from 0 to less than 1, for jitter. */
  random(): number;
  /**
   * False if the monotonic clock of the runtime starts with the process, and cannot be compared with that of
   * other processes. Absent means true.
   */
  readonly isMonotonicClockShared?: boolean;
  /** The human-readable name of this process: `host:pid`. */
  readonly processLabel: string;
  /** Reports an error that no caller receives, such as that of a listener. */
  warn(message: string, cause: unknown): void;
}
