// Adapts a fetch handler to node:http, and therefore to Express, Fastify and other frameworks over it.

import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream as NodeStream } from "node:stream/web";

/** A request listener of node:http. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** A request with a longer body is cut off. */
const LARGEST_BODY = 65_536;

/**
 * Adapts a fetch handler to node:http.
 *
 * @example
 * createServer(nodeHandler(dashboard(locks))).listen(8080, "127.0.0.1");
 */
export function nodeHandler(handle: (request: Request) => Promise<Response>): NodeHandler {
  return (incoming, outgoing) => {
    serve(handle, incoming, outgoing).catch(() => outgoing.destroy());
  };
}

async function serve(
  handle: (request: Request) => Promise<Response>,
  incoming: IncomingMessage & { readonly originalUrl?: string },
  outgoing: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  outgoing.once("close", () => gone.abort());
  const { method = "GET", headers } = incoming;
  const url = addressOf(headers.host, incoming.originalUrl ?? incoming.url ?? "/");
  if (url === null) return void outgoing.writeHead(400).end();
  const hasBody = method !== "GET" && method !== "HEAD";
  const body = hasBody ? await bodyOf(incoming) : null;
  const given = Object.entries(headers).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  const response = await handle(new Request(url, { method, headers: given, body, signal: gone.signal }));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body === null || method === "HEAD") return void outgoing.end();
  await pipeline(Readable.fromWeb(response.body as NodeStream), outgoing).catch(() => {});
}

/** null for a Host header that is no host. */
function addressOf(host: string | undefined, path: string): URL | null {
  try {
    return new URL(path.replace(/^\/*/, "/"), `http://${host ?? ""}`);
  } catch {
    return null;
  }
}

async function bodyOf(incoming: IncomingMessage): Promise<string> {
  let body = "";
  incoming.setEncoding("utf8");
  for await (const chunk of incoming) {
    body += String(chunk);
    if (body.length > LARGEST_BODY) break;
  }
  return body;
}
