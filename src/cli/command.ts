// The command `holdfast` as a function. Every way out is an exit code of its own, and each failure has said
// one line on stderr first.

import { readFileSync } from "node:fs";
import { CommanderError } from "commander";
import { LockError } from "../surface.ts";
import { CommandError, describe, EXIT, exitCodeOf } from "./exit-codes.ts";
import { complain, complainJson } from "./output.ts";
import { makeProgram } from "./program.ts";

/** @returns the exit code. */
export async function holdfast(args: readonly string[]): Promise<number> {
  let exitCode = 0;
  let asJson = false;
  const program = makeProgram({
    chosen: (flags) => (asJson = flags.json === true),
    ended: (code) => (exitCode = code),
  });
  try {
    refuseMangled(args);
    hideSecrets(args);
    await program.parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    // Commander has said its line already; help and version end well.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT.usage;
    return failed(error, asJson);
  }
}

/** Wrong usage is a mistake of whoever wrote the line, and told in words. */
function failed(error: unknown, asJson: boolean): number {
  const exitCode = exitCodeOf(error);
  const message = describe(error);
  const code = LockError.is(error) ? error.code : null;
  if (asJson && exitCode !== EXIT.usage) complainJson({ error: { code, message }, exitCode });
  else complain(message);
  return exitCode;
}

/** A login in the URL of a store, a password among its options, or the token of the dashboard. */
const SECRET = /^(--store=)?[a-z+]+:\/\/[^/?#]*@|[?&]\w*pass\w*=|^--token\b/i;

/**
 * Everybody on this machine can read a command line. One with a password in the URL of its store is
 * replaced, so that the password is there for a moment only.
 */
function hideSecrets(args: readonly string[]): void {
  const end = args.indexOf("--");
  const own = end === -1 ? args : args.slice(0, end);
  if (own.some((arg) => SECRET.test(arg))) process.title = `holdfast ${args[0]}`;
}

/**
 * Node reads arguments as UTF-8 and replaces what is not: a key or an argument of the child would be
 * another one (P18).
 */
function refuseMangled(args: readonly string[]): void {
  if (!args.some((arg) => arg.includes("\uFFFD"))) return;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(readFileSync("/proc/self/cmdline"));
  } catch {
    throw new CommandError("an argument is not valid UTF-8 and would be changed on its way", EXIT.usage);
  }
}
