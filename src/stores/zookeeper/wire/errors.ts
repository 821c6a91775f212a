// How a request fails: the server rejects it with a code, or the outcome is unknown because the connection is
// gone.

export const Code = {
  unimplemented: -6,
  noNode: -101,
  noAuth: -102,
  badVersion: -103,
  nodeExists: -110,
  sessionExpired: -112,
  authFailed: -115,
  sessionMoved: -118,
  throttled: -127,
} as const;

const NAMES: ReadonlyMap<number, string> = new Map([
  [-1, "SystemError"],
  [-2, "RuntimeInconsistency"],
  [-3, "DataInconsistency"],
  [-4, "ConnectionLoss"],
  [-5, "MarshallingError"],
  [-6, "Unimplemented"],
  [-7, "OperationTimeout"],
  [-8, "BadArguments"],
  [-101, "NoNode"],
  [-102, "NoAuth"],
  [-103, "BadVersion"],
  [-108, "NoChildrenForEphemerals"],
  [-110, "NodeExists"],
  [-111, "NotEmpty"],
  [-112, "SessionExpired"],
  [-114, "InvalidACL"],
  [-115, "AuthFailed"],
  [-118, "SessionMoved"],
  [-119, "NotReadOnly"],
  [-125, "QuotaExceeded"],
  [-127, "Throttled"],
]);

/** The server answered with an error. Nothing was changed. */
export class ServerError extends Error {
  override readonly name = "ServerError";
  readonly code: number;

  constructor(code: number) {
    super(NAMES.get(code) ?? `error ${code}`);
    this.code = code;
  }
}

/** The connection is gone. Its open requests may have been carried out or not. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
}

/** A request longer than servers accept. It was not sent: a server closes a connection that sends one. */
export class RequestTooLarge extends Error {
  override readonly name = "RequestTooLarge";
  readonly bytes: number;

  constructor(bytes: number) {
    super(`a request of ${bytes} bytes`);
    this.bytes = bytes;
  }
}

export function isCode(error: unknown, ...codes: readonly number[]): boolean {
  return error instanceof ServerError && codes.includes(error.code);
}
