// Connections to the mailboxes of other processes: to tell them to look, and to learn of their death, because the kernel
// closes a dead process's end. Each waiter watches only whoever is before it in line, so a death wakes one (P14).
// A message that cannot be sent at once is dropped: polling is the net (P11).

import { connect, type Socket } from "node:net";
import type { System } from "../../core/system.ts";
import { errno } from "./errors.ts";
import { encode, type Message, type Roads } from "./mailbox.ts";

const OPEN_LINKS = 128;
const REMEMBERED_SILENT = 1_024;
/** More than this unsent means that the other side does not read. */
const LONGEST_QUEUE_BYTES = 65_536;

interface Link {
  readonly socket: Socket;
  readonly watchers: Set<string>;
  /** Ended by ourselves: says nothing about the other side. */
  ours: boolean;
}

export class Links {
  readonly #roads: Roads;
  readonly #system: System;
  readonly #links = new Map<string, Link>();
  readonly #watched = new Map<string, readonly string[]>();
  /** Processes whose mailbox is gone, since when. If such a one is alive nevertheless, only its child keeps it so. */
  readonly #silent = new Map<string, number>();
  readonly #alarm: (watcher: string) => void;

  /** `alarm` is called with the id of each waiter that watched a process whose mailbox went. */
  constructor(roads: Roads, system: System, alarm: (watcher: string) => void) {
    this.#roads = roads;
    this.#system = system;
    this.#alarm = alarm;
  }

  send(process: string, message: Message): void {
    const { socket } = this.#link(process);
    if (socket.writableLength < LONGEST_QUEUE_BYTES) socket.write(encode(message));
  }

  /** From now on `watcher` watches exactly these processes. */
  watch(watcher: string, processes: readonly string[]): void {
    for (const old of this.#watched.get(watcher) ?? []) {
      if (!processes.includes(old)) this.#links.get(old)?.watchers.delete(watcher);
    }
    if (processes.length === 0) this.#watched.delete(watcher);
    else this.#watched.set(watcher, processes);
    for (const process of processes) {
      if (!this.#silent.has(process)) this.#link(process).watchers.add(watcher);
    }
  }

  /** For how long this process's mailbox has been gone; null while it is there or was never looked for. */
  silentMs(process: string): number | null {
    const since = this.#silent.get(process);
    return since === undefined ? null : this.#system.monoMs() - since;
  }

  /** What was sent a moment ago still arrives: whoever releases or revokes and leaves at once has told the others. */
  async close(): Promise<void> {
    this.#watched.clear();
    const all = [...this.#links];
    const unsent = all.filter(([, { socket }]) => socket.writableLength > 0);
    await Promise.all(unsent.map(([, { socket }]) => sent(socket)));
    for (const [process, link] of all) this.#cut(process, link);
  }

  #link(process: string): Link {
    const known = this.#links.get(process);
    if (known !== undefined) return known;
    this.#makeRoom();
    const socket = connect({ path: this.#roads.to(process) });
    const link: Link = { socket, watchers: new Set(), ours: false };
    this.#links.set(process, link);
    socket.unref();
    let failure = "";
    socket.on("error", (error) => {
      failure = errno(error);
    });
    // Nobody writes to the one who connected; reading is how the end of the other side is seen.
    socket.resume();
    socket.on("close", () => this.#ended(process, link, failure));
    return link;
  }

  #ended(process: string, link: Link, failure: string): void {
    if (link.ours) return;
    this.#links.delete(process);
    // A full backlog or too many open files here: the other side may be well. Its waiters poll.
    if (failure === "EAGAIN" || failure === "EMFILE" || failure === "ENFILE") return;
    for (const old of this.#silent.keys()) {
      if (this.#silent.size < REMEMBERED_SILENT) break;
      this.#silent.delete(old);
    }
    this.#silent.set(process, this.#system.monoMs());
    for (const watcher of link.watchers) this.#alarm(watcher);
  }

  /** Unwatched links go first come, first gone; watched ones stay. */
  #makeRoom(): void {
    for (const [process, link] of this.#links) {
      if (this.#links.size < OPEN_LINKS) return;
      if (link.watchers.size === 0) this.#cut(process, link);
    }
  }

  #cut(process: string, link: Link): void {
    link.ours = true;
    this.#links.delete(process);
    link.socket.destroy();
  }
}

/** The kernel has all of it, or never will. */
function sent(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once("close", resolve);
    socket.end(resolve);
  });
}
