// Processes that cannot outlive this one, not even stopped: a small shell keeps their numbers, and when the pipe from here
// closes, for whatever reason, it kills those that are left. A number is taken off the list as soon as its process is gone.

import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";

// Each line is "+number" or "-number".
const SCRIPT = `all=" "
while read -r line; do
  case $line in
    +*) all="$all\${line#+} " ;;
    -*) one=\${line#-}; case $all in *" $one "*) all="\${all%% $one *} \${all#* $one }" ;; esac ;;
  esac
done
for one in $all; do kill -s KILL "$one" 2>/dev/null; done`;

export class Watchdog {
  readonly #shell: ChildProcess;

  constructor() {
    this.#shell = spawn("/bin/sh", ["-c", SCRIPT], { detached: true, stdio: ["pipe", "ignore", "ignore"] });
    this.#shell.unref();
    this.#pipe.unref();
    this.#pipe.on("error", () => {}); // somebody ended the shell: an orderly end does not need it
  }

  guard(child: ChildProcess): void {
    if (child.pid === undefined) return;
    this.#pipe.write(`+${child.pid}\n`);
    child.once("exit", () => this.#pipe.write(`-${child.pid}\n`));
  }

  close(): void {
    this.#pipe.end();
  }

  get #pipe(): Socket {
    return this.#shell.stdin as Socket;
  }
}
