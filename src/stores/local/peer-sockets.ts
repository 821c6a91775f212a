// Connections to the sockets of other processes. They carry notifications, and they show which processes
// are alive: accepted      alive; also a stopped process, for which the kernel accepts ECONNREFUSED
// dead: no process has the listening socket any more (Windows: the named pipe is not found) anything else
// unknown, which counts as alive until its leases end. A missing socket proves nothing, because it may
// have been deleted. A connection stays open while a waiter watches the process. When it ends, connect
// again: the process has died, or only its child has the socket now. Each waiter watches only the process
// right before it in the queue, so a death wakes one waiter (P14).

import { connect, type Socket } from "node:net";
import { errno } from "./errors.ts";
import { isProcessName } from "./folder.ts";
import { encode, type Message } from "./notifications.ts";

const DEAD: string = process.platform === "win32" ? "ENOENT" : "ECONNREFUSED";
const OPEN_CONNECTIONS = 128;
const REMEMBERED_DEAD = 4_096;
/** More unsent bytes than this mean that the other process does not read. */
const LONGEST_QUEUE_BYTES = 65_536;
/**
 * A process whose connections end this often in a row without a verdict counts as alive, and is asked again
 * later.
 */
const RECONNECTS = 8;

/** Finds the socket of a process. */
export interface Addresses {
  address(name: string): string;
}

type State = "connecting" | "alive";

class Peer {
  socket: Socket | null = null;
  state: State = "connecting";
  reconnects = 0;
  readonly watchers = new Set<string>();
  readonly waiting: (() => void)[] = [];
}

export class PeerSockets {
  readonly #addresses: Addresses;
  readonly #peers = new Map<string, Peer>();
  readonly #dead = new Set<string>();
  readonly #watched = new Map<string, readonly string[]>();
  readonly #onDeath: (watcher: string) => void;

  /** `onDeath` is called with the id of each waiter that watched a process which is dead now. */
  constructor(addresses: Addresses, onDeath: (watcher: string) => void) {
    this.#addresses = addresses;
    this.#onDeath = onDeath;
  }

  /** False only if the process is known to be dead. An unknown process counts as alive. */
  isAlive(name: string): boolean {
    return isProcessName(name) && !this.#dead.has(name);
  }

  /** Connects to the processes that are not connected yet. Resolves with true if one of them is dead. */
  async ask(names: readonly string[]): Promise<boolean> {
    const unanswered: Promise<void>[] = [];
    for (const name of names) {
      if (!this.isAlive(name)) continue;
      const peer = this.#peer(name);
      if (peer.state === "connecting")
        unanswered.push(new Promise((resolve) => void peer.waiting.push(resolve)));
    }
    if (unanswered.length > 0) await Promise.all(unanswered);
    return names.some((name) => !this.isAlive(name));
  }

  /** A message that cannot be sent at once is dropped: polling covers the loss (P11). */
  send(name: string, message: Message): void {
    if (!this.isAlive(name)) return;
    const { socket } = this.#peer(name);
    if (socket !== null && socket.writableLength < LONGEST_QUEUE_BYTES) socket.write(encode(message));
  }

  /** From now on `watcher` watches exactly these processes. */
  watch(watcher: string, names: readonly string[]): void {
    for (const old of this.#watched.get(watcher) ?? []) {
      if (!names.includes(old)) this.#peers.get(old)?.watchers.delete(watcher);
    }
    if (names.length === 0) this.#watched.delete(watcher);
    else this.#watched.set(watcher, names);
    for (const name of names) {
      if (this.isAlive(name)) this.#peer(name).watchers.add(watcher);
    }
  }

  /** Messages that were sent just before still arrive, unless the other process has stopped reading. */
  async close(): Promise<void> {
    this.#watched.clear();
    const peers = [...this.#peers.values()];
    this.#peers.clear();
    await Promise.all(peers.filter((peer) => peer.state === "connecting").map(({ socket }) => flush(socket)));
    for (const { socket, waiting } of peers) {
      socket?.destroy();
      for (const resolve of waiting) resolve();
    }
  }

  #peer(name: string): Peer {
    const known = this.#peers.get(name);
    if (known !== undefined) return known;
    this.#makeRoom();
    const peer = new Peer();
    this.#peers.set(name, peer);
    this.#connect(name, peer);
    return peer;
  }

  #connect(name: string, peer: Peer): void {
    const socket = connect({ path: this.#addresses.address(name) });
    peer.socket = socket;
    peer.state = "connecting";
    socket.unref();
    // The other side never writes, but the socket must be read to notice its end.
    socket.resume();
    socket.on("connect", () => this.#answered(peer));
    // Act on the first of these events: "close" comes later than "error" and "end".
    socket.on("error", (error) => this.#ended(name, peer, socket, errno(error)));
    socket.on("end", () => this.#ended(name, peer, socket, ""));
    socket.on("close", () => this.#ended(name, peer, socket, ""));
  }

  #answered(peer: Peer): void {
    peer.state = "alive";
    for (const resolve of peer.waiting.splice(0)) resolve();
  }

  #ended(name: string, peer: Peer, socket: Socket, failure: string): void {
    if (this.#peers.get(name) !== peer || peer.socket !== socket) return;
    socket.destroy();
    // The kernel accepts a connection before the process does, and resets it if the process ends before that.
    const wasAccepted = peer.state === "alive" || failure === "ECONNRESET" || failure === "EPIPE";
    if (failure === DEAD) {
      this.#remember(name);
      this.#forget(name, peer);
      for (const watcher of peer.watchers) this.#onDeath(watcher);
    } else if (wasAccepted && peer.reconnects < RECONNECTS) {
      peer.reconnects += 1;
      this.#connect(name, peer);
    } else {
      this.#forget(name, peer);
    }
  }

  #forget(name: string, peer: Peer): void {
    this.#peers.delete(name);
    this.#answered(peer);
  }

  #remember(name: string): void {
    for (const oldest of this.#dead) {
      if (this.#dead.size < REMEMBERED_DEAD) break;
      this.#dead.delete(oldest);
    }
    this.#dead.add(name);
  }

  /** Closes connections without a watcher, the oldest first. */
  #makeRoom(): void {
    for (const [name, peer] of this.#peers) {
      if (this.#peers.size < OPEN_CONNECTIONS) return;
      if (peer.watchers.size > 0 || peer.state === "connecting") continue;
      this.#peers.delete(name);
      peer.socket?.destroy();
    }
  }
}

/**
 * Resolves when the kernel has all queued bytes, or the connection has failed. Connecting to a local
 * socket does not wait for the other process.
 */
function flush(socket: Socket | null): Promise<void> {
  if (socket === null || socket.writableLength === 0) return Promise.resolve();
  return new Promise((resolve) => {
    socket.once("close", resolve);
    socket.end(resolve);
  });
}
