// The stream of the server. EventSource cannot send a token, so the stream is read with fetch.

import type { Message } from "./model.ts";

const TOKEN = "holdfast-token";
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;

/** The fragment of the address may carry the token; it goes from there at once. */
export function takeToken(): void {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  sessionStorage.setItem(TOKEN, token);
  history.replaceState(null, "", location.pathname + location.search);
}

export function setToken(token: string): void {
  sessionStorage.setItem(TOKEN, token);
}

export function send(path: string, init: RequestInit = {}): Promise<Response> {
  const token = sessionStorage.getItem(TOKEN);
  const headers = new Headers(init.headers);
  if (token !== null) headers.set("authorization", `Bearer ${token}`);
  return fetch(path, { ...init, headers });
}

export interface Listener {
  readonly message: (message: Message) => void;
  readonly connected: (isConnected: boolean) => void;
  /** The server wants a token, or another one. */
  readonly refused: () => void;
}

/** Reads and reconnects until a token is needed. */
export async function listen(listener: Listener): Promise<void> {
  for (let retryMs = FIRST_RETRY_MS; ; retryMs = Math.min(LONGEST_RETRY_MS, retryMs * 2)) {
    try {
      const response = await send("events");
      if (response.status === 401) return listener.refused();
      if (response.ok && response.body !== null) {
        listener.connected(true);
        retryMs = FIRST_RETRY_MS;
        await read(response.body, listener.message);
      }
    } catch {
      // The server is gone, or the network: try again.
    }
    listener.connected(false);
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}

async function read(body: ReadableStream<BufferSource>, message: (message: Message) => void): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let parts: string[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = decoder.decode(value, { stream: true }).split("\n\n");
    parts.push(events.shift() ?? "");
    for (const next of events) {
      const event = parts.join("");
      if (event.startsWith("data: ")) message(JSON.parse(event.slice("data: ".length)) as Message);
      parts = [next];
    }
  }
}
