// Ends COMMAND when this process cannot: a small shell in a session of its own that reads a pipe.
// 1. The pipe closes because this process was killed: SIGTERM to COMMAND, a short grace time, SIGKILL.
// 2. A deadline passes because this process was stopped past the end of its lease: SIGKILL, before the next
//    holder starts.
// The shell inherits the lifeline as well, for a COMMAND that closes unknown descriptors. On a normal end,
// `stop` kills its process group.

import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import type { Writable } from "node:stream";
import { EXIT, CommandError } from "./exit-codes.ts";

const SHELL = "/bin/sh";
/** Where `sleep` is, whatever the caller's PATH says. */
const SAFE_PATH = "/usr/bin:/bin:/usr/local/bin";
/** Steps of 10 ms between SIGTERM and SIGKILL. */
const GRACE_STEPS = 50;

/**
 * Lines on stdin: first the target, then deadlines in 1/100 s of /proc/uptime, each replacing the one before.
 * The target is a process group with a minus, or at a terminal the pid, the session and the mark of COMMAND.
 */
const SCRIPT = `trap '' HUP INT QUIT TERM
read -r target session mark || exit 0
send() {
  signal=$1
  if [ -z "$mark" ]; then kill -s "$signal" -- "$target" 2>/dev/null; return 0; fi
  for dir in /proc/[0-9]*; do
    read -r stat <"$dir/stat" || continue
    pid=\${dir#/proc/}
    set -- \${stat##*) }
    [ "$4" = "$session" ] || continue
    if [ "$pid" = "$target" ] || grep -qF -e "$mark" "$dir/environ"; then kill -s "$signal" "$pid"; fi
  done 2>/dev/null
  return 0
}
end() { send KILL; [ -z "$mark" ] || send KILL; }
uptime() { read -r up rest </proc/uptime && now=\${up%.*}\${up#*.}; }
alive() { read -r stat 2>/dev/null </proc/\${target#-}/stat && case \${stat##*) } in [ZX]*) false;; esac; }
nap=
while read -r end; do
  [ -n "$nap" ] && kill -USR1 "$nap" 2>/dev/null
  (
    sleeper=
    trap '[ -n "$sleeper" ] && kill -KILL "$sleeper" 2>/dev/null; exit' USR1
    uptime || exit
    left=$((end - now))
    if [ "$left" -gt 0 ]; then
      sleep "$((left / 100)).$((left / 10 % 10))$((left % 10))" & sleeper=$!
      wait "$sleeper" || exit
    fi
    end
  ) 3>&- &
  nap=$!
done
send TERM
step=0
while [ "$step" -lt ${GRACE_STEPS} ] && alive; do
  sleep 0.01 || break
  step=$((step + 1))
done
end
[ -n "$nap" ] && kill -USR1 "$nap" 2>/dev/null
exit 0
`;

export class Watchdog {
  readonly #shell: ChildProcess;
  readonly #pipe: Writable;

  private constructor(shell: ChildProcess) {
    this.#shell = shell;
    this.#pipe = shell.stdin as Writable;
    // If the shell was killed, writing fails. COMMAND runs on, guarded by this process alone.
    this.#pipe.on("error", () => {});
  }

  /** Call it before COMMAND starts. `name` is shown by `ps`. */
  static start(name: string, lifeline: number | null): Watchdog {
    const shell = spawn(SHELL, ["-c", 'eval "$script"', "holdfast-watchdog", name], {
      stdio: ["pipe", "ignore", "ignore", ...(lifeline === null ? [] : [lifeline])],
      detached: true,
      cwd: "/",
      // The script is in the environment, so that `ps` stays readable.
      env: { script: SCRIPT, PATH: [SAFE_PATH, process.env["PATH"]].filter(Boolean).join(":") },
    });
    shell.on("error", () => {});
    if (shell.pid !== undefined) return new Watchdog(shell);
    throw new CommandError(
      `${SHELL} cannot be started: it would end COMMAND if holdfast were killed, so COMMAND was not run`,
      EXIT.unavailable,
    );
  }

  guard(target: string): void {
    this.#pipe.write(`${target}\n`);
  }

  /** COMMAND must not live longer than this. Has no effect where /proc is not mounted. */
  deadline(inMs: number): void {
    const now = uptimeMs();
    if (now !== null) this.#pipe.write(`${Math.max(0, Math.floor((now + inMs) / 10))}\n`);
  }

  stop(): void {
    try {
      process.kill(-(this.#shell.pid as number), "SIGKILL");
    } catch {
      // It has ended already.
    }
    this.#pipe.destroy();
  }
}

/** A clock that the shell can read too; null where /proc is not mounted. */
function uptimeMs(): number | null {
  try {
    return Number.parseFloat(readFileSync("/proc/uptime", "latin1")) * 1_000;
  } catch {
    return null;
  }
}
