// Whether an error says that a connection ended before the reply, as the clients of the stores report it. The
// call may have been carried out; core repeats idempotent calls.

const SOCKET_CODES: ReadonlySet<unknown> = new Set(["ECONNRESET", "ECONNABORTED", "EPIPE", "ETIMEDOUT"]);

/** `messages`: what the client says when it has no error of the socket to show. */
export function isConnectionLost(error: unknown, messages: RegExp): boolean {
  if (!(error instanceof Error)) return false;
  return SOCKET_CODES.has((error as { code?: unknown }).code) || messages.test(error.message);
}
