// The command `holdfast` as a function. Every failure prints one line on stderr and has an exit code
// (exit-codes.ts).

import { readFileSync } from "node:fs";
import { CommanderError } from "commander";
import { LockError } from "../surface.ts";
import { CommandError, describe, EXIT, exitCodeOf } from "./exit-codes.ts";
import { printError, printErrorJson } from "./output.ts";
import { makeProgram } from "./program.ts";

/** @returns the exit code. */
export async function holdfast(args: readonly string[]): Promise<number> {
  let exitCode = 0;
  let asJson = false;
  const program = makeProgram({
    parsed: (flags) => (asJson = flags.json === true),
    ended: (code) => (exitCode = code),
  });
  try {
    rejectInvalidUtf8(args);
    hideSecrets(args);
    await program.parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    // Commander has printed its line already. --help and --version are exit code 0.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT.usage;
    return reportFailure(error, asJson);
  }
}

/** Usage errors are plain text even with --json: a person made them and has to read them. */
function reportFailure(error: unknown, asJson: boolean): number {
  const exitCode = exitCodeOf(error);
  const message = describe(error);
  const code = LockError.is(error) ? error.code : null;
  if (asJson && exitCode !== EXIT.usage) printErrorJson({ error: { code, message }, exitCode });
  else printError(message);
  return exitCode;
}

/** A login in the URL of a store, a password among its options, or the token of the dashboard. */
const SECRET = /^(--store=)?[a-z+]+:\/\/[^/?#]*@|[?&]\w*pass\w*=|^--token\b/i;

/**
 * Every user of this machine can read a command line, so one with a secret is replaced as soon as possible.
 */
function hideSecrets(args: readonly string[]): void {
  const end = args.indexOf("--");
  const own = end === -1 ? args : args.slice(0, end);
  if (own.some((arg) => SECRET.test(arg))) process.title = `holdfast ${args[0]}`;
}

/**
 * Node decodes arguments as UTF-8 and replaces invalid bytes, which would change a key or an argument of
 * COMMAND (P18).
 */
function rejectInvalidUtf8(args: readonly string[]): void {
  if (!args.some((arg) => arg.includes("\uFFFD"))) return;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(readFileSync("/proc/self/cmdline"));
  } catch {
    throw new CommandError("an argument is not valid UTF-8 and would be changed on its way", EXIT.usage);
  }
}
