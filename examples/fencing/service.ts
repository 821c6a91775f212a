// A service that owns counters, with a guarded door and an open one. In real life authentication comes first.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { FenceGate, requireFence } from "holdfast/fence";

export interface Service {
  readonly url: string;
  stop(): void;
}

export async function startService(): Promise<Service> {
  const counters = new Map<string, number>();
  const gate = new FenceGate();
  const nameOf = (request: Request): string => new URL(request.url).pathname.split("/").at(-1) ?? "";
  const open = async (request: Request): Promise<Response> => {
    const name = nameOf(request);
    if (request.method === "PUT") counters.set(name, Number(await request.text()));
    return new Response(String(counters.get(name) ?? 0));
  };
  const guarded = requireFence(gate, open, { key: nameOf });
  const server = createServer((incoming, outgoing) => {
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => parts.push(part));
    incoming.on("end", () => {
      const request = new Request(`http://service${incoming.url}`, {
        method: incoming.method ?? "GET",
        headers: incoming.headers as Record<string, string>,
        ...(incoming.method === "PUT" ? { body: Buffer.concat(parts).toString() } : {}),
      });
      const door = incoming.url?.startsWith("/guarded/") === true ? guarded : open;
      void door(request).then(async (answer) => {
        outgoing.statusCode = answer.status;
        outgoing.end(await answer.text());
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    stop: () => void server.close(),
  };
}
