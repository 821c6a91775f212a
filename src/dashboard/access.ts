// Access control of the dashboard.
// 1. Without a token, it accepts requests to a loopback name only, so that a page of another site cannot
//    reach it by DNS rebinding.
// 2. With a token, everything except the page itself requires it. The token is in a header and not in a
//    cookie, so no other site can send it.

import { createHash, timingSafeEqual } from "node:crypto";
import { InvalidArgumentError } from "../core/errors.ts";

/** Who may use the dashboard. See `DashboardOptions`. */
export interface AccessOptions {
  readonly token?: string | undefined;
  readonly hosts?: readonly string[] | undefined;
}

const LOOPBACK: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];
const SHORTEST_TOKEN = 16;

export class Access {
  readonly #token: Buffer | null;
  readonly #hosts: readonly string[];

  /** @throws InvalidArgumentError for a token that is short enough to guess. */
  constructor({ token, hosts = LOOPBACK }: AccessOptions) {
    if (token !== undefined && (typeof token !== "string" || token.length < SHORTEST_TOKEN))
      throw new InvalidArgumentError(`token must be a string of at least ${SHORTEST_TOKEN} characters`);
    this.#token = token === undefined ? null : digest(token);
    this.#hosts = hosts;
  }

  get needsToken(): boolean {
    return this.#token !== null;
  }

  /** The response that rejects the request, or null. `isPublic`: the page itself, which contains no data. */
  refusal(request: Request, isPublic: boolean): Response | null {
    if (this.#token === null) {
      const { hostname } = new URL(request.url);
      return this.#hosts.includes(hostname)
        ? null
        : text(403, `the host ${JSON.stringify(hostname)} is not allowed: use a loopback name, or a token`);
    }
    return isPublic || this.#hasToken(request) ? null : text(401, "the token is missing or wrong");
  }

  #hasToken(request: Request): boolean {
    const given = /^Bearer (.+)$/.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
    return this.#token !== null && timingSafeEqual(digest(given), this.#token);
  }
}

function digest(value: string): Buffer {
  return createHash("sha256").update(value).digest();
}

export function text(status: number, message: string): Response {
  return new Response(`${message}\n`, {
    status,
    headers: { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" },
  });
}
