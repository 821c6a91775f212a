// A client's connection to the resource. It never repeats a touch: a repeated write would look like a lost one.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { onLine } from "../lines.ts";
import type { TouchCall, TouchReply } from "../settings.ts";

export class ResourceLink {
  readonly #socket: Socket;
  readonly #waiting = new Map<number, (before: number | null) => void>();
  #calls = 0;

  private constructor(socket: Socket) {
    this.#socket = socket;
    onLine(socket, (line) => {
      const { n, before } = JSON.parse(line) as TouchReply;
      this.#waiting.get(n)?.(before);
      this.#waiting.delete(n);
    });
    socket.on("close", () => {
      for (const give of this.#waiting.values()) give(null);
      this.#waiting.clear();
    });
  }

  static async open(path: string): Promise<ResourceLink> {
    const socket = connect(path);
    await once(socket, "connect");
    return new ResourceLink(socket);
  }

  /** What the register held, or null when the touch was refused. */
  touch(call: Omit<TouchCall, "n">): Promise<number | null> {
    if (this.#socket.destroyed) return Promise.resolve(null);
    this.#calls += 1;
    const n = this.#calls;
    return new Promise((resolve) => {
      this.#waiting.set(n, resolve);
      this.#socket.write(`${JSON.stringify({ ...call, n })}\n`);
    });
  }

  close(): void {
    this.#socket.end();
  }
}
