// What the errors of a Redis and of its clients have in common, for the stores that are built on it.

/** A script of ours only stumbles over what none of ours has written. */
const FOREIGN =
  /HOLDFAST-FOREIGN|WRONGTYPE|user_script.*(attempt to|bad argument)|(Bad data format|Missing bytes) in input/;
const DEEPEST_CAUSE = 5;

export function isForeign(text: string): boolean {
  return FOREIGN.test(text);
}

/**
 * ioredis hangs the command that failed on its errors, arguments and all: the password of a login, or the id with which anybody
 * could release the lock. Whoever prints an error prints its cause too, so they are taken off.
 */
export function withoutArguments(error: unknown): void {
  let one = error;
  for (let depth = 0; depth < DEEPEST_CAUSE && one instanceof Error; depth += 1) {
    if ("command" in one) delete one.command;
    one = one.cause;
  }
}
