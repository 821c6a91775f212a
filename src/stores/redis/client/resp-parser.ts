// Replies of RESP 2, the protocol of Redis, from the bytes of a socket.
// https://redis.io/docs/latest/develop/reference/protocol-spec/

import type { Reply } from "./port.ts";

/** An error that the server answered. In a list, as EXEC gives one, it is an element. */
export class ReplyError extends Error {
  override readonly name = "ReplyError";
}

const INCOMPLETE = Symbol("incomplete");
type Parsed = Reply | ReplyError | typeof INCOMPLETE;

const [CR, MINUS, ZERO] = [13, 45, 48];
const [ARRAY, BULK, INTEGER, SIMPLE] = [42, 36, 58, 43];

export class RespParser {
  readonly #onReply: (reply: Reply | ReplyError) => void;
  /** What was read and is not a whole reply yet begins at `#at`. */
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  /** A reply of this many bytes is under way: before that, nothing is parsed again. */
  #neededBytes = 0;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;

  constructor(onReply: (reply: Reply | ReplyError) => void) {
    this.#onReply = onReply;
  }

  /** Throws when these are not the bytes of a Redis. */
  push(chunk: Buffer): void {
    if (this.#waitingBytes === 0 && this.#neededBytes === 0) {
      this.#bytes = chunk;
    } else {
      this.#waiting.push(chunk);
      this.#waitingBytes += chunk.length;
      if (this.#waitingBytes < this.#neededBytes) return;
      this.#bytes = Buffer.concat(this.#waiting);
    }
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#neededBytes = 0;
    this.#at = 0;
    this.#parseAll();
  }

  #parseAll(): void {
    const { length } = this.#bytes;
    while (this.#at < length) {
      const start = this.#at;
      const reply = this.#parse();
      if (reply === INCOMPLETE) {
        const rest = this.#bytes.subarray(start);
        this.#waiting = [rest];
        this.#waitingBytes = rest.length;
        this.#neededBytes = Math.max(this.#neededBytes - start, rest.length + 1);
        return;
      }
      this.#onReply(reply);
    }
  }

  #parse(): Parsed {
    const type = this.#bytes[this.#at++];
    switch (type) {
      case BULK:
        return this.#parseBulk();
      case INTEGER:
        return this.#parseNumber();
      case ARRAY:
        return this.#parseArray();
      case SIMPLE:
        return this.#parseLine();
      case MINUS: {
        const line = this.#parseLine();
        return line === INCOMPLETE ? INCOMPLETE : new ReplyError(line);
      }
      default:
        throw new Error(`this is no Redis: it answered with byte ${type}`);
    }
  }

  #parseBulk(): string | null | typeof INCOMPLETE {
    const length = this.#parseNumber();
    if (length === INCOMPLETE) return INCOMPLETE;
    if (length < 0) return null;
    const [start, end] = [this.#at, this.#at + length];
    if (end + 2 > this.#bytes.length) {
      this.#neededBytes = end + 2;
      return INCOMPLETE;
    }
    this.#at = end + 2;
    return this.#bytes.toString("utf8", start, end);
  }

  #parseArray(): Parsed {
    const length = this.#parseNumber();
    if (length === INCOMPLETE) return INCOMPLETE;
    if (length < 0) return null;
    const items: (Reply | ReplyError)[] = [];
    while (items.length < length) {
      const item = this.#at < this.#bytes.length ? this.#parse() : INCOMPLETE;
      if (item === INCOMPLETE) return INCOMPLETE;
      items.push(item);
    }
    return items as Reply;
  }

  #parseLine(): string | typeof INCOMPLETE {
    const end = this.#bytes.indexOf(CR, this.#at);
    if (end === -1 || end + 2 > this.#bytes.length) return INCOMPLETE;
    const line = this.#bytes.toString("utf8", this.#at, end);
    this.#at = end + 2;
    return line;
  }

  #parseNumber(): number | typeof INCOMPLETE {
    const bytes = this.#bytes;
    const isNegative = bytes[this.#at] === MINUS;
    let [at, number] = [isNegative ? this.#at + 1 : this.#at, 0];
    for (let byte = bytes[at]; byte !== CR; byte = bytes[++at]) {
      if (byte === undefined) return INCOMPLETE;
      if (byte < ZERO || byte > ZERO + 9) throw new Error(`this is no Redis: it answered with byte ${byte}`);
      number = number * 10 + byte - ZERO;
    }
    if (at + 2 > bytes.length) return INCOMPLETE;
    this.#at = at + 2;
    return isNegative ? -number : number;
  }
}
