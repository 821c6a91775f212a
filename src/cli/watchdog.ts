// Ends the child when this process cannot: a small shell that reads our pipe, in a session of its own.
// 1. The pipe closes because this process was killed: SIGTERM to the child, a short grace, SIGKILL.
// 2. A deadline passes because this process was stopped past its lease: SIGKILL at once, before the next
// holder starts.
// It keeps the lifeline too, for children that close descriptors they do not know. It must never outlive
// the child's keeper on a normal end: `stop` kills its whole process group.

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
 * Lines on stdin: first whom to end, then deadlines in 1/100 s of /proc/uptime, each replacing the last. Whom
 * to end is a group with a minus, or at a terminal COMMAND, its session and the mark of what it starts.
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
    // A watchdog that somebody killed cannot be written to; the child runs on, guarded by this process alone.
    this.#pipe.on("error", () => {});
  }

  /**
   * Started before the child, so that there is never a child without it. `name` is for people who look at
   * `ps`.
   */
  static start(name: string, lifeline: number | null): Watchdog {
    const shell = spawn(SHELL, ["-c", 'eval "$script"', "holdfast-watchdog", name], {
      stdio: ["pipe", "ignore", "ignore", ...(lifeline === null ? [] : [lifeline])],
      detached: true,
      cwd: "/",
      // The script goes by the environment, so that a list of processes stays readable.
      env: { script: SCRIPT, PATH: [SAFE_PATH, process.env["PATH"]].filter(Boolean).join(":") },
    });
    shell.on("error", () => {});
    if (shell.pid !== undefined) return new Watchdog(shell);
    throw new CommandError(
      `${SHELL} cannot be started; without it nothing would end COMMAND if holdfast were killed, so it is not run`,
      EXIT.unavailable,
    );
  }

  guard(target: string): void {
    this.#pipe.write(`${target}\n`);
  }

  /** The child must not live longer than this from now. Without a readable clock there is no such guard. */
  deadline(inMs: number): void {
    const now = uptimeMs();
    if (now !== null) this.#pipe.write(`${Math.max(0, Math.floor((now + inMs) / 10))}\n`);
  }

  stop(): void {
    try {
      process.kill(-(this.#shell.pid as number), "SIGKILL");
    } catch {
      // Somebody else has ended it.
    }
    this.#pipe.destroy();
  }
}

/** The clock that a shell can read too; null where /proc is not mounted. */
function uptimeMs(): number | null {
  try {
    return Number.parseFloat(readFileSync("/proc/uptime", "latin1")) * 1_000;
  } catch {
    return null;
  }
}
