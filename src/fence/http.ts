// Fences over HTTP. The client sends two headers, and the service checks them with a gate before its handler
// runs: `(Request) => Promise<Response>` or Express. The headers do not authenticate the client, so put
// authentication before the gate.

import type { Lease } from "../core/api.ts";
import { InvalidArgumentError, LockError, type StaleFenceError } from "../core/errors.ts";
import { type Fence, fenceOf, inRange } from "./fence.ts";
import type { FenceGate } from "./gate.ts";

/** The header with the percent-encoded key of the lock. */
export const FENCING_KEY = "Fencing-Key";
/** The header with the fence as a decimal string. */
export const FENCING_TOKEN = "Fencing-Token";

/** The key and fence of a request that the gate has accepted. */
export interface Claim {
  readonly key: string;
  readonly fence: bigint;
  /**
   * Checks the fence again. Call it right before each write.
   *
   * @throws StaleFenceError if the gate has accepted a larger fence in the meantime.
   */
  check(): void;
}

/** Options of `requireFence`. */
export interface RequireFenceOptions<Incoming> {
  /** The key of the lock that protects the resource of a request. Without it the gate trusts `Fencing-Key`. */
  readonly key?: (request: Incoming) => string;
}

/** A handler that runs after the gate has accepted the fence of the request. */
export type FenceHandler = (request: Request, claim: Claim) => Response | Promise<Response>;

/**
 * The headers that send the fence of a lease to a guarded service. A header carries ASCII only, so the key is
 * percent-encoded.
 *
 * @example
 * await fetch(url, { method: "PUT", headers: fenceHeader(lease), body });
 */
export function fenceHeader(lease: Lease, key: string = lease.key): Record<string, string> {
  const fence: Fence = lease;
  return { [FENCING_KEY]: encodeURIComponent(key), [FENCING_TOKEN]: String(fenceOf(fence, key)) };
}

interface Refusal {
  readonly status: number;
  readonly body: { readonly code: string; readonly message: string; readonly seen?: string };
}

function guarded(
  gate: FenceGate,
  handle: FenceHandler,
  options: RequireFenceOptions<Request> = {},
): (request: Request) => Promise<Response> {
  if (typeof handle !== "function")
    throw new InvalidArgumentError(`handle of requireFence must be a function, got ${typeof handle}`);
  return async (request) => {
    try {
      const claim = claimOf(gate, (name) => request.headers.get(name), options.key?.(request));
      return await handle(request, claim);
    } catch (error) {
      const { status, body } = refusalOf(error);
      return Response.json(body, { status });
    }
  };
}

/** The part of an Express request that the gate uses. Requests of `node:http` have it too. */
export interface ExpressRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  fence?: Claim;
}
/** The part of an Express response that the gate uses. Responses of `node:http` have it too. */
export interface ExpressResponse {
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
}

function express<Incoming extends ExpressRequest>(
  gate: FenceGate,
  options: RequireFenceOptions<Incoming> = {},
): (request: Incoming, response: ExpressResponse, next: (error?: unknown) => void) => void {
  return (request, response, next) => {
    try {
      const header = (name: string): string | null => {
        const value = request.headers[name.toLowerCase()];
        return typeof value === "string" ? value : null;
      };
      request.fence = claimOf(gate, header, options.key?.(request));
    } catch (error) {
      refuse(response, error, next);
      return;
    }
    next();
  };
}

function expressErrors(
  error: unknown,
  _request: unknown,
  response: ExpressResponse,
  next: (error?: unknown) => void,
): void {
  refuse(response, error, next);
}

/** The type of `requireFence`. */
export interface RequireFence {
  /** Answers 412 to a stale fence, 428 to a missing one, and 400 to an invalid one or one for another key. */
  (
    gate: FenceGate,
    handle: FenceHandler,
    options?: RequireFenceOptions<Request>,
  ): (request: Request) => Promise<Response>;
  /** Express middleware. Sets `request.fence` to the claim. */
  express<Incoming extends ExpressRequest>(
    gate: FenceGate,
    options?: RequireFenceOptions<Incoming>,
  ): (request: Incoming, response: ExpressResponse, next: (error?: unknown) => void) => void;
  /** Express error handler, for a StaleFenceError that `check()` threw inside a handler. */
  expressErrors(
    error: unknown,
    request: unknown,
    response: ExpressResponse,
    next: (error?: unknown) => void,
  ): void;
}

/**
 * Puts a gate before a handler: requests with a stale fence do not reach it.
 *
 * @example
 * const gate = new FenceGate();
 * const handler = requireFence(gate, async (request, claim) => {
 *   const body = await request.text();
 *   claim.check();
 *   return save(body);
 * });
 */
export const requireFence: RequireFence = Object.assign(guarded, { express, expressErrors });

function refuse(response: ExpressResponse, error: unknown, next: (error?: unknown) => void): void {
  let refusal: Refusal;
  try {
    refusal = refusalOf(error);
  } catch {
    next(error);
    return;
  }
  response.statusCode = refusal.status;
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify(refusal.body));
}

class Missing extends Error {}

function claimOf(
  gate: FenceGate,
  header: (name: string) => string | null,
  expected: string | undefined,
): Claim {
  const [name, token] = [header(FENCING_KEY), header(FENCING_TOKEN)];
  if (name === null || token === null) {
    throw new Missing(
      `the request must have the headers ${FENCING_KEY} and ${FENCING_TOKEN}: send fenceHeader(lease)`,
    );
  }
  const key = decoded(name);
  if (expected !== undefined && expected !== key) {
    throw new InvalidArgumentError(`${FENCING_KEY} must be the key of this resource, got another key`, {
      key,
    });
  }
  if (!/^[1-9]\d{0,18}$/.test(token)) {
    throw new InvalidArgumentError(`${FENCING_TOKEN} must be a positive decimal number`, { key });
  }
  const fence = gate.pass(key, inRange(BigInt(token)));
  return { key, fence, check: () => void gate.pass(key, fence) };
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    throw new InvalidArgumentError(`${FENCING_KEY} must be percent-encoded`);
  }
}

/** The response to an error of the gate. Rethrows every other error. */
function refusalOf(error: unknown): Refusal {
  if (error instanceof Missing)
    return { status: 428, body: { code: "ERR_FENCE_MISSING", message: error.message } };
  if (!LockError.is(error)) throw error;
  const { code, message } = error;
  if (code === "ERR_FENCE_STALE") {
    return { status: 412, body: { code, message, seen: String((error as StaleFenceError).seen) } };
  }
  if (code !== "ERR_LOCK_ARGUMENT") throw error;
  return { status: 400, body: { code, message } };
}
