// The dashboard as a fetch handler. It serves the page, a stream of all holders and waiters, and `revoke`
// if that is allowed. It looks only at the last part of the path, so it can be mounted anywhere.

import type { Locks } from "../core/api.ts";
import { InvalidArgumentError, LockError } from "../core/errors.ts";
import { Access, type AccessOptions, text } from "./access.ts";
import { type FeedMessage, LockFeed, lockJson } from "./lock-feed.ts";
import { CSS, HTML, JS } from "./page.generated.ts";

/** Options of `dashboard`. */
export interface DashboardOptions extends AccessOptions {
  /** Name of the store on the page. @default "" */
  readonly title?: string;
  /** Allows revoke, which needs `token`. @default false */
  readonly allowRevoke?: boolean;
  /**
   * A bearer token of at least 16 characters, which requests for the data must have.
   * @default no token, and only requests to a name of `hosts`
   */
  readonly token?: string;
  /**
   * Host names that are served without a token, for an application that authenticates its users itself.
   * @default ["localhost", "127.0.0.1", "[::1]"]
   */
  readonly hosts?: readonly string[];
}

/** The fetch handler that `dashboard` returns. */
export type Dashboard = (request: Request) => Promise<Response>;

const PAGE_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-cache",
};
const ASSETS: Readonly<Record<string, readonly [type: string, body: string]>> = {
  "": ["text/html", HTML],
  "app.js": ["text/javascript", JS],
  "app.css": ["text/css", CSS],
};
const KEEP_ALIVE_MS = 15_000;
/** The largest body of a revoke request. A key has at most 4 kB. */
const LARGEST_BODY = 65_536;

/**
 * A page that shows the holders and waiters of `locks`, as a fetch handler for Hono, Bun and Deno. With
 * `nodeHandler` it works for node:http, Express and Fastify. It is read-only unless `allowRevoke` is true.
 *
 * @example
 * app.use("/locks", nodeHandler(dashboard(locks, { token: process.env.DASHBOARD_TOKEN })));
 * @throws InvalidArgumentError for `allowRevoke` without a token, or a token that is too short.
 */
export function dashboard(locks: Locks, options: DashboardOptions = {}): Dashboard {
  const { title = "", allowRevoke = false } = options;
  const access = new Access(options);
  if (allowRevoke && !access.needsToken)
    throw new InvalidArgumentError(
      "token must be set with allowRevoke: without a token, any local program could revoke locks",
    );
  const feed = new LockFeed(locks);
  return async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    const name = pathname.slice(pathname.lastIndexOf("/") + 1);
    const asset = Object.hasOwn(ASSETS, name) ? ASSETS[name] : undefined;
    const refusal = access.refusal(request, asset !== undefined);
    if (refusal !== null) return refusal;
    if (name === "revoke" && allowRevoke) return revoke(locks, request);
    if (request.method !== "GET" && request.method !== "HEAD") return text(405, "use GET");
    if (asset !== undefined) {
      const [type, body] = asset;
      return new Response(body, { headers: { ...PAGE_HEADERS, "content-type": `${type}; charset=utf-8` } });
    }
    if (name === "events") return events(feed, request, { title, allowRevoke });
    if (name === "key") return key(locks, searchParams.get("name") ?? "");
    // The URLs in the page are relative, so a page that is mounted at /locks must be loaded from /locks/.
    if (!name.includes(".") && name !== "revoke")
      return new Response(null, { status: 308, headers: { location: `${name}/` } });
    return text(404, "there is no such page");
  };
}

function json(status: number, value: unknown): Response {
  return new Response(JSON.stringify(value), {
    status,
    headers: { "content-type": "application/json", "cache-control": "no-store" },
  });
}

async function key(locks: Locks, name: string): Promise<Response> {
  try {
    const info = await locks.inspect(name);
    return json(200, info === null ? null : lockJson(info, Date.now()));
  } catch (error) {
    return failure(error);
  }
}

function events(feed: LockFeed, request: Request, settings: object): Response {
  const encoder = new TextEncoder();
  let end = (): void => {};
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      const send = (chunk: string): void => controller.enqueue(encoder.encode(chunk));
      const sendMessage = (message: FeedMessage | object): void => {
        // Disconnect a reader that does not keep up. It connects again by itself.
        if ((controller.desiredSize ?? 0) < -MOST_BEHIND) return end();
        send(`data: ${JSON.stringify(message)}\n\n`);
      };
      const alive = setInterval(() => send(": alive\n\n"), KEEP_ALIVE_MS);
      sendMessage({ type: "settings", ...settings });
      const stop = feed.read(sendMessage);
      end = () => {
        clearInterval(alive);
        stop();
        end = () => {};
        try {
          controller.close();
        } catch {
          // The reader has closed it.
        }
      };
      request.signal.addEventListener("abort", () => end(), { once: true });
    },
    cancel: () => end(),
  });
  return new Response(body, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no" },
  });
}

/** How many unread messages disconnect a reader. */
const MOST_BEHIND = 100;

interface RevokeBody {
  readonly key: string;
  readonly confirm: string;
  readonly fence: string;
  readonly reason: string;
  readonly force: boolean;
}

async function revoke(locks: Locks, request: Request): Promise<Response> {
  if (request.method !== "POST") return text(405, "use POST");
  const body = readRevoke(await request.text());
  if (typeof body === "string") return json(400, { error: body });
  const { key: name, fence, reason, force } = body;
  try {
    const revoked = await locks.revoke(name, { reason, force, fence: BigInt(fence) });
    return json(200, { revoked });
  } catch (error) {
    return failure(error);
  }
}

/** The validated body, or an error message. */
function readRevoke(body: string): RevokeBody | string {
  if (body.length > LARGEST_BODY) return "the request is too large";
  let value: Partial<Record<keyof RevokeBody, unknown>>;
  try {
    value = Object(JSON.parse(body)) as typeof value;
  } catch {
    return "the request is not JSON";
  }
  const { key: name, confirm, fence, reason, force } = value;
  if (typeof name !== "string" || name === "" || confirm !== name)
    return "confirm must be the key, typed again";
  if (typeof reason !== "string" || reason.trim() === "") return "reason must be a non-empty string";
  if (typeof fence !== "string" || !/^\d{1,19}$/.test(fence)) return "fence must be a decimal number";
  return { key: name, confirm, fence, reason, force: force === true };
}

function failure(error: unknown): Response {
  if (!LockError.is(error)) return json(500, { error: "internal error" });
  return json(error.code === "ERR_FENCE_STALE" ? 409 : 503, { error: error.message, code: error.code });
}
