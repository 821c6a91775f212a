// What a store tells people and operators: inspect, list, owns, note, revoke. Reading changes nothing: what
// has expired and was not swept yet is left out here.

import type {
  HolderInfo,
  LockInfo,
  Note,
  Request,
  RevokeAnswer,
  RevokeOptions,
  WaiterInfo,
} from "../../core/store.ts";
import type { CallContext } from "../shared/retry-while-unsent.ts";
import { type Row, textOf } from "./client/port.ts";
import { damagedRow } from "./errors.ts";
import { sql } from "./sql.ts";
import { encodeKeys, type Steps } from "./steps.ts";

const MODES: readonly string[] = ["x", "s", "p"];
/** A waiter that is silent for so long after its deadline has lost its place. As in the procedures. */
const FORGOTTEN_US = 10_000_000;

export class Inspect {
  readonly #steps: Steps;

  constructor(steps: Steps) {
    this.#steps = steps;
  }

  async inspect(key: string, call: CallContext): Promise<LockInfo | null> {
    const { rows } = await this.#steps.run(sql["inspect_lock"], [this.#steps.hash(key)], call);
    const [row] = rows;
    if (row === undefined) return null;
    if (isDamaged(row)) throw damagedRow(key);
    const [info = null] = await this.#describe([row], call);
    return info;
  }

  async *list(
    { prefix, limit }: { readonly prefix: string; readonly limit: number },
    call: CallContext,
  ): AsyncIterable<LockInfo> {
    const start = Buffer.from(prefix);
    let [left, after]: [number, Uint8Array] = [limit, Buffer.alloc(0)];
    while (left > 0) {
      const values = [this.#steps.namespace, after, start.length, start];
      const { rows } = await this.#steps.run(sql["list_locks"], values, call);
      const last = rows.at(-1);
      if (last === undefined) return;
      after = Buffer.from(textOf(last["lock_key"]));
      // A damaged row must not hide the others.
      for (const info of await this.#describe(
        rows.filter((row) => !isDamaged(row)),
        call,
      )) {
        if (left <= 0) return;
        left -= 1;
        yield info;
      }
    }
  }

  async owns({ keys, id }: Request, call: CallContext): Promise<boolean> {
    const names = keys.map((key) => this.#steps.hash(key));
    const { rows } = await this.#steps.byNames("count_owned", [id, id], names, call);
    return Number(rows[0]?.["owned"]) === keys.length;
  }

  async note({ keys, id, mode, limit }: Request, note: Note, call: CallContext): Promise<void> {
    const names = keys.map((key) => this.#steps.hash(key));
    const text = note === null ? null : Buffer.from(note.waitingFor);
    const statement = mode === "exclusive" && limit === 1 ? "note_lock" : "note_holder";
    await this.#steps.byNames(statement, [text, id], names, call);
  }

  async revoke(
    key: string,
    { fence, reason, force }: RevokeOptions,
    call: CallContext,
  ): Promise<RevokeAnswer> {
    const { bytes } = encodeKeys(this.#steps, [key]);
    const values = [fence === undefined ? null : Number(fence), reason, force ? 1 : 0];
    const { rows } = await this.#steps.call("revoke", bytes, values, call);
    return textOf(rows[0]?.["answer"]) as RevokeAnswer;
  }

  async #describe(rows: readonly Row[], call: CallContext): Promise<LockInfo[]> {
    if (rows.length === 0) return [];
    const names = rows.map((row) => row["name"] as Uint8Array);
    const [holders, waiters] = await Promise.all([
      this.#byName("list_holders", names, call),
      this.#byName("list_waiters", names, call),
    ]);
    return rows.flatMap((row) => {
      const [name, nowUs] = [hex(row["name"]), Number(row["now_us"])];
      const own = row["mode"] === "x" && Number(row["used"]) > 0 ? [row] : (holders.get(name) ?? []);
      const held = own.flatMap((one) => liveHolder(one, nowUs));
      const waiting = (waiters.get(name) ?? []).filter(
        (one) => Number(one["alive_us"]) > nowUs - FORGOTTEN_US,
      );
      if (held.length === 0 && waiting.length === 0) return [];
      const limits = [
        held.length === 0 ? 1 : Number(row["size"]),
        ...waiting.map((one) => Number(one["size"])),
      ];
      return [
        {
          key: textOf(row["lock_key"]),
          limit: Math.max(...limits),
          holders: held,
          waiters: waiting.map((one) => waiterInfo(one, nowUs)),
        },
      ];
    });
  }

  async #byName(
    statement: "list_holders" | "list_waiters",
    names: readonly Uint8Array[],
    call: CallContext,
  ): Promise<ReadonlyMap<string, readonly Row[]>> {
    const { rows } = await this.#steps.byNames(statement, [], names, call);
    const found = new Map<string, Row[]>();
    for (const row of rows) {
      const name = hex(row["name"]);
      found.set(name, [...(found.get(name) ?? []), row]);
    }
    return found;
  }
}

function isDamaged(row: Row): boolean {
  return !MODES.includes(textOf(row["mode"])) || Number(row["used"]) < 0;
}

/** None where its end has passed; the key may have to stay taken all the same. */
function liveHolder(row: Row, nowUs: number): HolderInfo[] {
  if (Number(row["ends_us"]) > nowUs) return [holderInfo(row, nowUs)];
  if (Number(row["kept"]) === 1 || Number(row["keep_us"]) <= nowUs) return [];
  return [holderInfo({ ...row, kept: 1, ends_us: row["keep_us"], waiting_for: null }, nowUs)];
}

export function holderInfo(row: Row, nowUs: number): HolderInfo {
  const [waitingFor, revoked] = [row["waiting_for"] ?? null, row["revoked"] ?? null];
  return {
    label: textOf(row["label"]),
    mode: Number(row["shared"]) === 1 ? "shared" : "exclusive",
    permits: Number(row["permits"]),
    fence: BigInt(textOf(row["fence"])),
    remainingMs: Math.max(0, (Number(row["ends_us"]) - nowUs) / 1_000),
    heldMs: Math.max(0, (nowUs - Number(row["since_us"])) / 1_000),
    ...(waitingFor === null ? {} : { waitingFor: textOf(waitingFor) }),
    ...(revoked === null ? {} : { revoked: textOf(revoked) }),
    ...(Number(row["kept"]) === 1 ? { kept: true } : {}),
  };
}

function waiterInfo(row: Row, nowUs: number): WaiterInfo {
  return {
    label: textOf(row["label"]),
    mode: Number(row["shared"]) === 1 ? "shared" : "exclusive",
    permits: Number(row["permits"]),
    waitedMs: Math.max(0, (nowUs - Number(row["since_us"])) / 1_000),
  };
}

function hex(value: unknown): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString("hex") : "";
}
