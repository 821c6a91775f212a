// Fences over HTTP: two headers on the client's side, a gate in front of the handler on the service's side, in web-standard form
// and for Express. The headers prove nothing about who sends them: put authentication before the gate.

import type { Lease } from "../core/api.ts";
import { InvalidArgumentError, LockError, type StaleFenceError } from "../core/errors.ts";
import { type Fence, fenceOf, inRange } from "./fence.ts";
import type { FenceGate } from "./gate.ts";

export const FENCING_KEY = "Fencing-Key";
export const FENCING_TOKEN = "Fencing-Token";

/** What came through the gate. */
export interface Claim {
  readonly key: string;
  readonly fence: bigint;
  /** Throws StaleFenceError if a later holder has come meanwhile: call it right before each write. */
  check(): void;
}

export interface RequireFenceOptions<Incoming> {
  /** Which key protects what this request is about. Without it the client's own word is taken. */
  readonly key?: (request: Incoming) => string;
}

export type FenceHandler = (request: Request, claim: Claim) => Response | Promise<Response>;

/** For `fetch`. A header holds ASCII only, so the key is percent-encoded. */
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
  if (typeof handle !== "function") throw new InvalidArgumentError("requireFence needs a handler");
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

/** The slice of Express that is used; Node's own request and response have it too. */
export interface ExpressRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  fence?: Claim;
}
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

export interface RequireFence {
  /** 412 when the fence is stale, 428 when there is none, 400 when it cannot be read or is for another key. */
  (
    gate: FenceGate,
    handle: FenceHandler,
    options?: RequireFenceOptions<Request>,
  ): (request: Request) => Promise<Response>;
  /** Express middleware: `request.fence` is the claim of what came through. */
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

function claimOf(gate: FenceGate, header: (name: string) => string | null, meant: string | undefined): Claim {
  const [name, token] = [header(FENCING_KEY), header(FENCING_TOKEN)];
  if (name === null || token === null) {
    throw new Missing(
      `this resource is guarded: send ${FENCING_KEY} and ${FENCING_TOKEN} of the lease (fenceHeader)`,
    );
  }
  const key = decoded(name);
  if (meant !== undefined && meant !== key) {
    throw new InvalidArgumentError(`the fence is for another key than this resource's`, { key });
  }
  if (!/^[1-9]\d{0,18}$/.test(token)) {
    throw new InvalidArgumentError(`${FENCING_TOKEN} is not a fence`, { key });
  }
  const fence = gate.pass(key, inRange(BigInt(token)));
  return { key, fence, check: () => void gate.pass(key, fence) };
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    throw new InvalidArgumentError(`${FENCING_KEY} is not percent-encoded`);
  }
}

/** Throws what is none of the gate's own. */
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
