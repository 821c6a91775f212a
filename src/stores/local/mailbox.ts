// Where this process is told to look: a Unix socket beside its process file. What arrives is a hint and nothing more: a
// message that is malformed, hostile or lost costs at most a look that was not needed, or a poll.
// Neither the server nor a connection keeps the process alive.

import { closeSync, openSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { fileError } from "./errors.ts";
import { remove } from "./key-files.ts";
import type { Place } from "./place.ts";

/** Room for a path in a socket's address is 108 bytes. */
const LONGEST_PATH_BYTES = 100;
const LONGEST_MESSAGE = 16_384;

export type Message = { readonly wake: string } | { readonly revoked: string; readonly reason: string };

export class Mailbox {
  readonly #server: Server;
  readonly #path: string;
  readonly #callers = new Set<Socket>();

  private constructor(server: Server, path: string) {
    this.#server = server;
    this.#path = path;
  }

  static async open(
    place: Place,
    roads: Roads,
    id: string,
    hear: (message: Message) => void,
  ): Promise<Mailbox> {
    const server = createServer();
    const mailbox = new Mailbox(server, place.socketPath(id));
    server.on("connection", (socket) => mailbox.#receive(socket, hear));
    try {
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        // Exclusive: in a cluster worker the socket would otherwise be opened by the primary, and outlive the worker.
        server.listen({ path: roads.to(id), exclusive: true }, () => {
          server.off("error", reject);
          resolve();
        });
      });
      server.on("error", () => {});
      server.unref();
      place.adoptSocket(mailbox.#path);
      return mailbox;
    } catch (error) {
      await mailbox.close();
      throw fileError(error, "listen at", mailbox.#path);
    }
  }

  async close(): Promise<void> {
    for (const socket of this.#callers) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    remove(this.#path);
  }

  #receive(socket: Socket, hear: (message: Message) => void): void {
    this.#callers.add(socket);
    socket.unref();
    socket.setEncoding("utf8");
    let rest = "";
    socket.on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const message = parse(line);
        if (message !== null) hear(message);
      }
      if (rest.length > LONGEST_MESSAGE) socket.destroy();
    });
    socket.on("error", () => {});
    socket.on("close", () => this.#callers.delete(socket));
  }
}

export function encode(message: Message): string {
  return `${JSON.stringify(message)}\n`;
}

function parse(line: string): Message | null {
  if (line.length > LONGEST_MESSAGE) return null;
  try {
    const { wake, revoked, reason } = JSON.parse(line) as Record<string, unknown>;
    if (typeof wake === "string") return { wake };
    return typeof revoked === "string" && typeof reason === "string" ? { revoked, reason } : null;
  } catch {
    return null;
  }
}

/** How a socket's address is written: by its path, or by way of the folder's descriptor where the path is too long. */
export class Roads {
  readonly #place: Place;
  readonly #folderFd: number | null;

  constructor(place: Place, id: string) {
    this.#place = place;
    const long = Buffer.byteLength(place.socketPath(id)) > LONGEST_PATH_BYTES;
    this.#folderFd = long ? openSync(place.folder, "r") : null;
  }

  to(id: string): string {
    return this.#folderFd === null
      ? this.#place.socketPath(id)
      : `/proc/self/fd/${this.#folderFd}/${id}.sock`;
  }

  close(): void {
    if (this.#folderFd !== null) closeSync(this.#folderFd);
  }
}
