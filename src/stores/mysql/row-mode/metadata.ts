// What row mode writes down beside the locks: fences, and who holds what. All of it on another connection
// than the one that holds the row, because it must be seen, and must stay, while the lock's own transaction
// is open.

import type { HolderInfo, Request } from "../../../core/store.ts";
import type { ReconnectingConnection, StatementCall } from "../client/connection.ts";
import { hashOf } from "../names.ts";
import { type Row, textOf, type Value } from "../client/port.ts";
import { sql, type StatementName } from "../sql.ts";

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

export class RowMetadata {
  readonly #connection: ReconnectingConnection;
  readonly #writer: Writer;
  readonly #namespace: Uint8Array;

  constructor(connection: ReconnectingConnection, writer: Writer) {
    this.#connection = connection;
    this.#writer = writer;
    this.#namespace = Buffer.from(writer.namespace);
  }

  hash(key: string): Uint8Array {
    return hashOf(this.#writer.namespace, key);
  }

  /** Makes the row that is locked, if there is none. */
  async add(key: string, io: StatementCall): Promise<void> {
    const hash = this.hash(key);
    await this.#run("row_create", [hash, this.#namespace, Buffer.from(key), hash], io);
  }

  /**
   * The next fence. Called while the row is locked, so nobody else draws one that could be used beside it.
   */
  async draw(request: Request, session: string, idleMs: number, io: StatementCall): Promise<Drawn> {
    const [key] = request.keys as readonly [string];
    const hash = this.hash(key);
    const shared = request.mode === "shared";
    const room = shared ? 0 : request.reservedFences;
    const { proc, process } = this.#writer;
    const who: Value[] = [session, proc, process, request.actor, request.label, idleMs];
    const fence = shared
      ? await this.drawFence(key, io)
      : await this.#drawn("row_holder_write", [room, ...who, hash], key, io);
    if (shared) {
      const slot = [hash, request.id, this.#namespace, Buffer.from(key), fence, fence];
      await this.#run("row_reader_write", [...slot, ...who], io);
    }
    return { fence, room };
  }

  /** The next fence of a key, for somebody who is not written down with it. */
  drawFence(key: string, io: StatementCall): Promise<number> {
    return this.#drawn("row_fence_draw", [this.hash(key)], key, io);
  }

  /** The holder has let go; what it did not use of its room returns to the key. null: nobody can say. */
  async clear(
    request: Request,
    session: string,
    drawn: Drawn,
    used: number | null,
    io: StatementCall,
  ): Promise<void> {
    const hash = this.hash(request.keys[0] as string);
    if (request.mode === "shared") await this.#run("row_reader_clear", [hash, request.id], io);
    else {
      const { fence, room } = drawn;
      await this.#run("row_holder_clear", [room, used ?? fence + room, hash, session, fence], io);
    }
  }

  async update(
    request: Request,
    session: string,
    used: number,
    label: string,
    io: StatementCall,
  ): Promise<void> {
    await this.#run("row_holder_update", [used, label, ...this.#place(request), session], io);
  }

  async note(request: Request, session: string, waitingFor: string | null, io: StatementCall): Promise<void> {
    const text = waitingFor === null ? null : Buffer.from(waitingFor);
    await this.#run("row_holder_note", [text, ...this.#place(request), session], io);
  }

  /** Reasons by session, of the holders of this opened store that were revoked. */
  async revoked(io: StatementCall): Promise<ReadonlyMap<string, string>> {
    const { rows } = await this.#run("row_revocation_read", [this.#writer.proc], io);
    return new Map(rows.map((row) => [textOf(row["session"]), textOf(row["revoked"])]));
  }

  async revoke(key: string, { slot, session }: Written, reason: string, io: StatementCall): Promise<void> {
    await this.#run("row_holder_revoke", [reason, this.hash(key), slot, session], io);
  }

  /** Those who hold a key and are alive. */
  async read(key: string, io: StatementCall): Promise<Written[]> {
    const { rows } = await this.#run("row_holder_read", [this.hash(key)], io);
    return rows.map(writtenOf);
  }

  /** The next hundred keys that are held, after a name. */
  async list(prefix: string, after: Uint8Array, io: StatementCall): Promise<string[]> {
    const start = Buffer.from(prefix);
    const { rows } = await this.#run("row_holder_list", [this.#namespace, after, start.length, start], io);
    return rows.map((row) => textOf(row["name"]));
  }

  /** Readers whose sessions ended without a word. */
  async clearDead(io: StatementCall): Promise<void> {
    await this.#run("row_reader_clear_dead", [], io);
  }

  async #drawn(name: StatementName, values: Value[], key: string, io: StatementCall): Promise<number> {
    let answer = await this.#run(name, values, io);
    if (answer.met === 0) {
      await this.#run("row_fence_create", [this.hash(key), this.#namespace, Buffer.from(key)], io);
      answer = await this.#run(name, values, io);
    }
    if (answer.insertId <= 0) throw new Error("the server gave no fence");
    return answer.insertId;
  }

  #place(request: Request): Value[] {
    return [this.hash(request.keys[0] as string), request.mode === "shared" ? request.id : ""];
  }

  #run(
    name: StatementName,
    values: readonly Value[],
    io: StatementCall,
  ): ReturnType<ReconnectingConnection["run"]> {
    return this.#connection.run(sql[name], values, io);
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
