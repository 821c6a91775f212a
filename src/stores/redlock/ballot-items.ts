// Proposals and ends as texts in columns, which scripts/votes.lua reads by position: one text serves all nodes, and a text is
// cheaper to send and to read than a dozen arguments.

import type { Request } from "../../core/store.ts";
import type { Standing } from "./attempt.ts";

const TURN = 12;
const FENCE = 18;
/** A time in ms, which may have a fraction. */
const TIME = 24;

/** What the last request had beside its id and its numbers: most have the same. */
interface Shape {
  readonly of: Request;
  readonly text: string;
}

export class BallotItems {
  #shape: Shape | null = null;

  proposal(request: Request, { turn, birth }: Standing, fence: number, open: string): string {
    const { id, queue } = request;
    const numbers = `${column(turn, TURN)}${open.padEnd(TURN)}${column(fence, FENCE)}${column(birth, FENCE)}`;
    return `a${queue ? "1" : "0"}${numbers}${column(Buffer.byteLength(id), 3)}${id}${this.#shapeOf(request)}`;
  }

  /** `used`: the last fence that was used, or "" where nobody can say. */
  end({ id }: Request, turn: number, used: string, open: string): string {
    return `e0${column(turn, TURN)}${open.padEnd(TURN)}${used.padEnd(FENCE)}${id}`;
  }

  #shapeOf(request: Request): string {
    const last = this.#shape;
    if (last !== null && alike(last.of, request)) return last.text;
    const { ttlMs, graceMs, keepMs, fenceRoom, label, actor } = request;
    const times = [ttlMs, graceMs, keepMs, fenceRoom].map((ms) => column(ms, TIME)).join("");
    const text = `${times}${column(Buffer.byteLength(label), 4)}${label}${actor}`;
    this.#shape = { of: request, text };
    return text;
  }
}

function alike(a: Request, b: Request): boolean {
  const times = a.ttlMs === b.ttlMs && a.graceMs === b.graceMs && a.keepMs === b.keepMs;
  return times && a.fenceRoom === b.fenceRoom && a.label === b.label && a.actor === b.actor;
}

function column(number: number, width: number): string {
  return String(number).padEnd(width);
}
