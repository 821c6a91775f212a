// Errors of Redis servers and clients, for the redis and redlock stores.

/** The errors of our scripts on a value that holdfast did not write. */
const FOREIGN =
  /HOLDFAST-FOREIGN|WRONGTYPE|user_script.*(attempt to|bad argument)|(Bad data format|Missing bytes) in input/;
const DEEPEST_CAUSE = 5;

export function isForeign(text: string): boolean {
  return FOREIGN.test(text);
}

/**
 * Removes the failed command from an error and its causes. ioredis adds it with its arguments: the
 * password of AUTH, or the request id, which is enough to release the lock. Programs print errors with
 * their causes.
 */
export function withoutArguments(error: unknown): void {
  let one = error;
  for (let depth = 0; depth < DEEPEST_CAUSE && one instanceof Error; depth += 1) {
    if ("command" in one) delete one.command;
    one = one.cause;
  }
}
