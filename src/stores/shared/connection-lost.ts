// Recognises the errors with which clients report that a connection ended before the reply. The server
// may have executed the call; core repeats idempotent calls.

const SOCKET_CODES: ReadonlySet<unknown> = new Set(["ECONNRESET", "ECONNABORTED", "EPIPE", "ETIMEDOUT"]);

/** `messages` matches the errors of the client that carry no code of the socket. */
export function isConnectionLost(error: unknown, messages: RegExp): boolean {
  if (!(error instanceof Error)) return false;
  return SOCKET_CODES.has((error as { code?: unknown }).code) || messages.test(error.message);
}
