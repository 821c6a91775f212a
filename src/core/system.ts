// THE door to time and chance. Types only.
// Core and stores reach clocks, timers and randomness through this interface and nowhere else, so that a
// simulator can run them in virtual time from one seed.

/** One moment as three clocks saw it, in ms. Only differences of the same clock mean anything. */
export interface Instant {
  /**
   * Never set, never jumps; stands still while the machine is suspended. Shared by all processes of one
   * boot.
   */
  readonly monoMs: number;
  /** As mono, but goes on during suspend. May be coarse. */
  readonly bootMs: number;
  /** The calendar. Can be set by anybody at any time. */
  readonly wallMs: number;
}

export interface System {
  now(): Instant;
  monoMs(): number;
  wallMs(): number;
  /**
   * Runs `fn` once after `ms` (any length). A background timer does not keep the process alive. Returns its
   * cancellation.
   */
  after(ms: number, fn: () => void, kind?: "background"): () => void;
  /** One more, or one less, that the process must stay alive for. */
  pending(change: 1 | -1): void;
  /**
   * Calls `listener` whenever the process has nothing left to do and would end. Returns what takes it off.
   */
  beforeExit?(listener: () => void): () => void;
  /** For the signal of a call. The requests of a batch all listen to it, however many they are. */
  abortController?(): AbortController;
  /** Lets other work of the event loop go first. */
  yield(): Promise<void>;
  /** 128 random bits in hex. */
  randomId(): string;
  /** At least 0, less than 1. For jitter. */
  random(): number;
  /**
   * False where the runtime counts its monotonic clock from the start of the process and nothing ties it to
   * that of other processes. Absent means true.
   */
  readonly isMonotonicClockShared?: boolean;
  /** Who this process is, for people: `host:pid`. */
  readonly processLabel: string;
  /** Something went wrong that no caller can be told of (a listener threw). */
  warn(message: string, cause: unknown): void;
}
