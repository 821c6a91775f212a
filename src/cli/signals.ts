// Forwards signals to COMMAND. Before COMMAND has started, a signal ends the wait. Afterwards this process
// stays alive, because it has to release the key when COMMAND has ended. The handlers stay until the process
// exits, so that a late signal cannot prevent the release. At a terminal the kernel sends the signals of the
// keyboard to the whole process group, so forwarding them would deliver them twice.

import { signalExitCode } from "./child.ts";

/** Without a handler, these would end this process. */
const TERMINATING: readonly NodeJS.Signals[] = [
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
/** These do not end this process, but COMMAND in another process group would miss them. */
const FORWARDED: readonly NodeJS.Signals[] = ["SIGCONT", "SIGTSTP", "SIGURG", "SIGWINCH"];
const FROM_KEYBOARD: readonly NodeJS.Signals[] = ["SIGINT", "SIGQUIT"];

export class Signals {
  readonly #stop = new AbortController();
  #stoppedBy: NodeJS.Signals | null = null;
  #forward: ((signal: NodeJS.Signals) => void) | null = null;

  constructor() {
    for (const signal of TERMINATING) this.#listen(signal);
  }

  /** Aborts when a signal arrives before COMMAND has started. */
  get stop(): AbortSignal {
    return this.#stop.signal;
  }

  get stoppedBy(): { readonly signal: NodeJS.Signals; readonly exitCode: number } | null {
    const signal = this.#stoppedBy;
    return signal === null ? null : { signal, exitCode: signalExitCode(signal) };
  }

  forwardTo(child: { signal(name: NodeJS.Signals): void }, interactive: boolean): void {
    this.#forward = (signal) => {
      if (!interactive || !FROM_KEYBOARD.includes(signal)) child.signal(signal);
    };
    if (!interactive) for (const signal of FORWARDED) this.#listen(signal);
  }

  /** COMMAND has ended. */
  ignore(): void {
    this.#forward = () => {};
  }

  #listen(signal: NodeJS.Signals): void {
    process.on(signal, () => this.#receive(signal));
  }

  #receive(signal: NodeJS.Signals): void {
    if (this.#forward !== null) return this.#forward(signal);
    this.#stoppedBy ??= signal;
    this.#stop.abort();
  }
}
