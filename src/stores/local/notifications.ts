// The listening socket of an opened store. It has two uses:
// 1. It receives notifications: a release wakes the next waiter, a revocation reaches the holder. A
//    message is only a hint. If it is malformed, hostile or lost, it costs one needless attempt, or a
//    poll.
// 2. It proves that the process lives. The kernel closes it with the last process that has it, however
//    that process ended, and then refuses connections. A child that inherits the descriptor keeps the
//    socket open. Neither the socket nor a connection keeps the process alive.

import { renameSync, statSync, unlinkSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { fileError } from "./errors.ts";
import { type Folder, sharedBits } from "./folder.ts";

const LONGEST_MESSAGE = 16_384;

export type Message = { readonly wake: string } | { readonly revoked: string; readonly reason: string };

export class NotificationSocket {
  readonly #server: Server;
  readonly #path: string;
  readonly #callers = new Set<Socket>();

  private constructor(server: Server, path: string) {
    this.#server = server;
    this.#path = path;
  }

  static async open(
    folder: Folder,
    name: string,
    receive: (message: Message) => void,
  ): Promise<NotificationSocket> {
    const isFile = process.platform !== "win32";
    const path = folder.address(name);
    // Rename the socket to its name once it listens. Before that, it would look like that of a dead process.
    const draft = isFile ? folder.address(`.${name}`) : path;
    const server = createServer();
    const socket = new NotificationSocket(server, path);
    server.on("connection", (caller) => socket.#serve(caller, receive));
    try {
      await listen(server, draft, sharedBits(folder.directory));
      server.on("error", () => {});
      server.unref();
      if (isFile) renameSync(draft, path);
      return socket;
    } catch (error) {
      await socket.close(false);
      throw fileError(error, "listen at", path);
    }
  }

  /** See LocalStore.lifeline. Null if the runtime does not expose the descriptor. */
  get descriptor(): number | null {
    const handle = (this.#server as unknown as { _handle?: { fd?: number } | null })._handle;
    const fd = handle?.fd;
    return fd === undefined || fd < 0 ? null : fd;
  }

  /** False after the socket was removed: other processes can no longer reach this one. */
  isLinked(): boolean {
    return process.platform === "win32" || statSync(this.#path, { throwIfNoEntry: false }) !== undefined;
  }

  /**
   * `keepName` leaves the file of the closed socket. It proves that the process of a record that names it is
   * dead.
   */
  async close(keepName: boolean): Promise<void> {
    for (const socket of this.#callers) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    if (keepName) return;
    try {
      unlinkSync(this.#path);
    } catch {
      // Somebody removed it, or it is a named pipe.
    }
  }

  #serve(socket: Socket, receive: (message: Message) => void): void {
    this.#callers.add(socket);
    socket.unref();
    socket.setEncoding("utf8");
    let rest = "";
    socket.on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const message = parse(line);
        if (message !== null) receive(message);
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

/**
 * Sets the mode of the socket by the umask. Changing it by path is not safe in a directory of several users.
 */
function listen(server: Server, path: string, shared: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    const umask = shared === 0 ? null : setUmask(~(0o700 | shared) & 0o777);
    // Exclusive: in a cluster worker the primary would otherwise open the socket, and it would outlive the
    // worker.
    server.listen({ path, exclusive: true }, () => {
      server.off("error", reject);
      resolve();
    });
    if (umask !== null) setUmask(umask);
  });
}

/**
 * Null in a worker thread, which cannot set it. Processes of other users then cannot connect, so they notice
 * the death of this process only when its ttl ends.
 */
function setUmask(mask: number): number | null {
  try {
    return process.umask(mask);
  } catch {
    return null;
  }
}
