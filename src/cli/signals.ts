// Signals to this process are meant for the child. Before there is one they end the wait; afterwards they
// are passed on and this process stays, because it must see the child's end and let go of the key.
// They are listened to until the process exits: a late one must not keep the key from being released.
// At a terminal the kernel gives those of the keyboard to the whole group: passing them on would deliver
// them twice.

import { signalExitCode } from "./child.ts";

/** What would end this process if nobody listened. */
const ENDING: readonly NodeJS.Signals[] = [
  "SIGHUP",
  "SIGINT",
  "SIGQUIT",
  "SIGTERM",
  "SIGUSR1",
  "SIGUSR2",
  "SIGALRM",
  "SIGVTALRM",
  "SIGXCPU",
  "SIGXFSZ",
  "SIGIO",
  "SIGPWR",
];
/** Harmless to us; the child of another group would not hear of them. */
const PASSED: readonly NodeJS.Signals[] = ["SIGCONT", "SIGTSTP", "SIGURG", "SIGWINCH"];
const OF_THE_KEYBOARD: readonly NodeJS.Signals[] = ["SIGINT", "SIGQUIT"];

export class Signals {
  readonly #stop = new AbortController();
  #stoppedBy: NodeJS.Signals | null = null;
  #pass: ((signal: NodeJS.Signals) => void) | null = null;

  constructor() {
    for (const signal of ENDING) this.#listen(signal);
  }

  /** Aborts when a signal came before there was a child. */
  get stop(): AbortSignal {
    return this.#stop.signal;
  }

  get stoppedBy(): { readonly signal: NodeJS.Signals; readonly exitCode: number } | null {
    const signal = this.#stoppedBy;
    return signal === null ? null : { signal, exitCode: signalExitCode(signal) };
  }

  /** From now on everything is for the child. */
  passTo(child: { signal(name: NodeJS.Signals): void }, interactive: boolean): void {
    this.#pass = (signal) => {
      if (!interactive || !OF_THE_KEYBOARD.includes(signal)) child.signal(signal);
    };
    if (!interactive) for (const signal of PASSED) this.#listen(signal);
  }

  /** The child is gone: what comes now is too late to matter. */
  ignore(): void {
    this.#pass = () => {};
  }

  #listen(signal: NodeJS.Signals): void {
    process.on(signal, () => this.#came(signal));
  }

  #came(signal: NodeJS.Signals): void {
    if (this.#pass !== null) return this.#pass(signal);
    this.#stoppedBy ??= signal;
    this.#stop.abort();
  }
}
