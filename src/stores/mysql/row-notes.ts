// What row mode writes down beside the locks: fences, and who holds what. All of it on another connection than the one that
// holds the row, because it must be seen, and must stay, while the lock's own transaction is open.

import type { HolderInfo, Request } from "../../core/store.ts";
import type { Link, Patience } from "./link.ts";
import { hashOf } from "./names.ts";
import { type Row, textOf, type Value } from "./port.ts";
import { sql, type StatementName } from "./sql.ts";

/** Who writes: the namespace, the opened store, and its process as people know it. */
export interface Writer {
  readonly namespace: string;
  readonly proc: string;
  readonly process: string;
}

export interface Drawn {
  readonly fence: number;
  readonly room: number;
}

/** A holder as it was written down. */
export interface Written {
  readonly slot: string;
  readonly session: string;
  readonly proc: string;
  readonly fence: number;
  /** The largest fence that it may use. */
  readonly top: number;
  readonly info: HolderInfo;
}

export class RowNotes {
  readonly #link: Link;
  readonly #writer: Writer;
  readonly #namespace: Uint8Array;

  constructor(link: Link, writer: Writer) {
    this.#link = link;
    this.#writer = writer;
    this.#namespace = Buffer.from(writer.namespace);
  }

  hash(key: string): Uint8Array {
    return hashOf(this.#writer.namespace, key);
  }

  /** Makes the row that is locked, if there is none. */
  async add(key: string, io: Patience): Promise<void> {
    const hash = this.hash(key);
    await this.#run("row-add", [hash, this.#namespace, Buffer.from(key), hash], io);
  }

  /** The next fence. Called while the row is locked, so nobody else draws one that could be used beside it. */
  async draw(request: Request, session: string, idleMs: number, io: Patience): Promise<Drawn> {
    const [key] = request.keys as readonly [string];
    const hash = this.hash(key);
    const shared = request.mode === "shared";
    const room = shared ? 0 : request.fenceRoom;
    const { proc, process } = this.#writer;
    const who: Value[] = [session, proc, process, request.actor, request.label, idleMs];
    const fence = shared
      ? await this.drawFence(key, io)
      : await this.#drawn("row-draw", [room, ...who, hash], key, io);
    if (shared) {
      const slot = [hash, request.id, this.#namespace, Buffer.from(key), fence, fence];
      await this.#run("row-reader", [...slot, ...who], io);
    }
    return { fence, room };
  }

  /** The next fence of a key, for somebody who is not written down with it. */
  drawFence(key: string, io: Patience): Promise<number> {
    return this.#drawn("row-draw-shared", [this.hash(key)], key, io);
  }

  /** The holder has let go; what it did not use of its room returns to the key. null: nobody can say. */
  async clear(
    request: Request,
    session: string,
    drawn: Drawn,
    used: number | null,
    io: Patience,
  ): Promise<void> {
    const hash = this.hash(request.keys[0] as string);
    if (request.mode === "shared") await this.#run("row-clear-reader", [hash, request.id], io);
    else {
      const { fence, room } = drawn;
      await this.#run("row-clear", [room, used ?? fence + room, hash, session, fence], io);
    }
  }

  async tell(request: Request, session: string, used: number, label: string, io: Patience): Promise<void> {
    await this.#run("row-tell", [used, label, ...this.#place(request), session], io);
  }

  async note(request: Request, session: string, waitingFor: string | null, io: Patience): Promise<void> {
    const text = waitingFor === null ? null : Buffer.from(waitingFor);
    await this.#run("row-note", [text, ...this.#place(request), session], io);
  }

  /** Reasons by session, of the holders of this opened store that were revoked. */
  async revoked(io: Patience): Promise<ReadonlyMap<string, string>> {
    const { rows } = await this.#run("row-revoked", [this.#writer.proc], io);
    return new Map(rows.map((row) => [textOf(row["session"]), textOf(row["revoked"])]));
  }

  async revoke(key: string, { slot, session }: Written, reason: string, io: Patience): Promise<void> {
    await this.#run("row-revoke", [reason, this.hash(key), slot, session], io);
  }

  /** Those who hold a key and are alive. */
  async look(key: string, io: Patience): Promise<Written[]> {
    const { rows } = await this.#run("row-look", [this.hash(key)], io);
    return rows.map(writtenOf);
  }

  /** The next hundred keys that are held, after a name. */
  async list(prefix: string, after: Uint8Array, io: Patience): Promise<string[]> {
    const start = Buffer.from(prefix);
    const { rows } = await this.#run("row-list", [this.#namespace, after, start.length, start], io);
    return rows.map((row) => textOf(row["name"]));
  }

  /** Readers whose sessions ended without a word. */
  async clearDead(io: Patience): Promise<void> {
    await this.#run("row-clear-dead", [], io);
  }

  async #drawn(name: StatementName, values: Value[], key: string, io: Patience): Promise<number> {
    let answer = await this.#run(name, values, io);
    if (answer.met === 0) {
      await this.#run("row-draw-first", [this.hash(key), this.#namespace, Buffer.from(key)], io);
      answer = await this.#run(name, values, io);
    }
    if (answer.insertId <= 0) throw new Error("the server gave no fence");
    return answer.insertId;
  }

  #place(request: Request): Value[] {
    return [this.hash(request.keys[0] as string), request.mode === "shared" ? request.id : ""];
  }

  #run(name: StatementName, values: readonly Value[], io: Patience): ReturnType<Link["run"]> {
    return this.#link.run(sql[name], values, io);
  }
}

function writtenOf(row: Row): Written {
  const slot = textOf(row["slot"]);
  const fence = Number(row["fence"]);
  const [waitingFor, revoked] = [row["waiting_for"], row["revoked"]];
  return {
    slot,
    session: textOf(row["session"]),
    proc: textOf(row["proc"]),
    fence,
    top: slot === "" ? Number(row["last"]) : fence,
    info: {
      label: textOf(row["label"]),
      mode: slot === "" ? "exclusive" : "shared",
      permits: 1,
      fence: BigInt(textOf(row["used"])),
      // It lasts as long as its session, which the server ends after so long a silence.
      remainingMs: Number(row["idle_ms"]),
      heldMs: Math.max(0, Number(row["held_us"]) / 1_000),
      ...(waitingFor === null ? {} : { waitingFor: textOf(waitingFor) }),
      ...(revoked === null ? {} : { revoked: textOf(revoked) }),
    },
  };
}
