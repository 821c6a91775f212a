// How the commands of this repository read their arguments: `--help` prints the usage text, and a command
// line that cannot be understood prints what is wrong beside it and exits with 64.

/** The exit code for a wrong command line, as in sysexits.h. */
export const WRONG_USAGE = 64;

/**
 * What `read` returns. Ends the process instead if `args` asks for help, or if `read` throws. `read` must do
 * nothing but parse.
 */
export function readUsage(usage, read, args = process.argv.slice(2)) {
  if (args.includes("--help") || args.includes("-h")) {
    console.log(usage);
    process.exit(0);
  }
  try {
    return read(args);
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`);
    return process.exit(WRONG_USAGE);
  }
}

/** The number in `text`. Throws if it is not a whole number of at least `least`. */
export function wholeNumber(name, text, least = 0) {
  const number = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(number) && number >= least) return number;
  throw new Error(`${name} must be a whole number of at least ${least}, got ${JSON.stringify(text)}`);
}
