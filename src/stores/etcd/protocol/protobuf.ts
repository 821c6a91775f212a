// The protocol buffer encoding, as far as etcd's messages need it: strings, integers up to 2^53, booleans,
// 64-bit integers, nested messages and lists. A message is a table of fields. Malformed bytes are an error;
// fields that are not in the table are skipped. See https://protobuf.dev/programming-guides/encoding/.

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;
const LOW_BITS = 128;
const HALF = 0x1_0000_0000;
/** Bytes of the longest varint of 64 bits. */
const LONGEST_VARINT = 10;

/** A message to write: a field that is left out has its default. */
export type Loose<T> = T extends readonly (infer Item)[]
  ? readonly Loose<Item>[]
  : T extends object
    ? { readonly [K in keyof T]?: Loose<T[K]> | undefined }
    : T;

export interface Codec<T> {
  encode(message: Loose<T>): Buffer;
  decode(bytes: Buffer): T;
  /** Encodes the message into a larger one, without its length. */
  write(out: Writer, message: Loose<T>): void;
}

export interface Field<T> {
  readonly number: number;
  /** Its value if it is absent. */
  readonly missing: () => T;
  write(out: Writer, value: T): void;
  /** Returns the value after one more occurrence of the field. */
  read(input: Reader, wireType: number, before: T): T;
}

export class ProtobufError extends Error {}

/** A buffer that grows. */
export class Writer {
  #bytes: Buffer = Buffer.allocUnsafe(256);
  #length = 0;

  varint(value: number): void {
    this.#room(LONGEST_VARINT);
    let rest = value;
    while (rest >= LOW_BITS) {
      this.#bytes[this.#length] = (rest % LOW_BITS) | LOW_BITS;
      this.#length += 1;
      rest = Math.floor(rest / LOW_BITS);
    }
    this.#bytes[this.#length] = rest;
    this.#length += 1;
  }

  big(value: bigint): void {
    this.#room(LONGEST_VARINT);
    let rest = value;
    while (rest >= 128n) {
      this.#bytes[this.#length] = Number(rest & 127n) | LOW_BITS;
      this.#length += 1;
      rest >>= 7n;
    }
    this.#bytes[this.#length] = Number(rest);
    this.#length += 1;
  }

  tag(number: number, wireType: number): void {
    this.varint(number * 8 + wireType);
  }

  text(value: string): void {
    const length = Buffer.byteLength(value);
    this.varint(length);
    this.#room(length);
    this.#bytes.write(value, this.#length, "utf8");
    this.#length += length;
  }

  /** A nested message. Its length goes in front of it once it is known; most lengths take one byte. */
  nested<T>(codec: Codec<T>, value: Loose<T>): void {
    this.#room(LONGEST_VARINT);
    const start = this.#length;
    this.#length += 1;
    codec.write(this, value);
    const size = this.#length - start - 1;
    if (size < LOW_BITS) {
      this.#bytes[start] = size;
      return;
    }
    let lengthBytes = 2;
    for (let rest = size; rest >= LOW_BITS * LOW_BITS; rest /= LOW_BITS) lengthBytes += 1;
    this.#room(LONGEST_VARINT);
    this.#bytes.copyWithin(start + lengthBytes, start + 1, this.#length);
    this.#length = start;
    this.varint(size);
    this.#length += size;
  }

  done(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  #room(length: number): void {
    if (this.#length + length <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + length));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

export class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get more(): boolean {
    return this.#at < this.#bytes.length;
  }

  /** As two halves of 32 bits each. */
  #halves(): [low: number, high: number] {
    let [low, high] = [0, 0];
    for (let count = 0; count < LONGEST_VARINT; count += 1) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined) throw new ProtobufError("a number ends in the middle");
      this.#at += 1;
      const bits = byte & 127;
      if (count < 4) low += bits * 2 ** (7 * count);
      else if (count === 4) {
        low += (bits & 15) * 2 ** 28;
        high = bits >> 4;
      } else high += bits * 2 ** (7 * count - 32);
      if (byte < LOW_BITS) return [low, high % HALF];
    }
    throw new ProtobufError("a number is longer than 64 bits");
  }

  varint(): number {
    const [low, high] = this.#halves();
    const value = high * HALF + low;
    if (!Number.isSafeInteger(value)) throw new ProtobufError("a number is larger than 2^53, or negative");
    return value;
  }

  big(): bigint {
    const [low, high] = this.#halves();
    return BigInt(high) * BigInt(HALF) + BigInt(low);
  }

  bytes(): Buffer {
    const length = this.varint();
    if (this.#at + length > this.#bytes.length) throw new ProtobufError("a field is longer than its message");
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  skip(wireType: number): void {
    if (wireType === VARINT) this.#halves();
    else if (wireType === BYTES) this.bytes();
    else if (wireType === FIXED64) this.#forward(8);
    else if (wireType === FIXED32) this.#forward(4);
    else throw new ProtobufError(`there is no wire type ${wireType}`);
  }

  #forward(length: number): void {
    if (this.#at + length > this.#bytes.length) throw new ProtobufError("a field is longer than its message");
    this.#at += length;
  }
}

function expectType(wireType: number, wanted: number): void {
  if (wireType !== wanted) throw new ProtobufError(`a field has wire type ${wireType} instead of ${wanted}`);
}

function scalar<T>(
  number: number,
  wireType: number,
  missing: T,
  write: (out: Writer, value: T) => void,
  read: (input: Reader) => T,
): Field<T> {
  return {
    number,
    missing: () => missing,
    write(out, value) {
      if (value === missing) return;
      out.tag(number, wireType);
      write(out, value);
    },
    read(input, found) {
      expectType(found, wireType);
      return read(input);
    },
  };
}

export function text(number: number): Field<string> {
  const read = (input: Reader): string => input.bytes().toString("utf8");
  return scalar(number, BYTES, "", (out, value) => out.text(value), read);
}

/** Not negative, less than 2^53. */
export function int(number: number): Field<number> {
  const read = (input: Reader): number => input.varint();
  return scalar(number, VARINT, 0, (out, value) => out.varint(value), read);
}

export function big(number: number): Field<bigint> {
  const read = (input: Reader): bigint => input.big();
  return scalar(number, VARINT, 0n, (out, value) => out.big(value), read);
}

export function flag(number: number): Field<boolean> {
  const read = (input: Reader): boolean => input.varint() !== 0;
  return scalar(number, VARINT, false, (out) => out.varint(1), read);
}

/** `of` is a function because messages may contain each other. */
export function one<T>(number: number, of: () => Codec<T>): Field<T | null> {
  return {
    number,
    missing: () => null,
    write(out, value) {
      if (value === null) return;
      out.tag(number, BYTES);
      out.nested(of(), value as Loose<T>);
    },
    read(input, found) {
      expectType(found, BYTES);
      return of().decode(input.bytes());
    },
  };
}

export function list<T>(number: number, of: () => Codec<T>): Field<readonly T[]> {
  return {
    number,
    missing: () => [],
    write(out, values) {
      for (const value of values) {
        out.tag(number, BYTES);
        out.nested(of(), value as Loose<T>);
      }
    },
    read(input, found, before) {
      expectType(found, BYTES);
      // The list was made for this message: see `missing`.
      (before as T[]).push(of().decode(input.bytes()));
      return before;
    },
  };
}

/** A list of small numbers. They are written one by one, and read one by one or packed. */
export function numbers(number: number): Field<readonly number[]> {
  return {
    number,
    missing: () => [],
    write(out, values) {
      for (const value of values) {
        out.tag(number, VARINT);
        out.varint(value);
      }
    },
    read(input, found, before) {
      if (found === VARINT) return [...before, input.varint()];
      expectType(found, BYTES);
      const packed = new Reader(input.bytes());
      const all = [...before];
      while (packed.more) all.push(packed.varint());
      return all;
    },
  };
}

export function message<T extends object>(fields: { readonly [K in keyof T]-?: Field<T[K]> }): Codec<T> {
  const table = Object.entries(fields) as [string, Field<unknown>][];
  const byNumber = new Map(table.map(([name, field]) => [field.number, { name, field }]));
  const write = (out: Writer, value: object): void => {
    for (const [name, field] of table) {
      const part = (value as Record<string, unknown>)[name];
      if (part !== undefined) field.write(out, part);
    }
  };
  return {
    write,
    encode(value) {
      const out = new Writer();
      write(out, value);
      return out.done();
    },
    decode(bytes) {
      const input = new Reader(bytes);
      const found: Record<string, unknown> = {};
      for (const [name, field] of table) found[name] = field.missing();
      while (input.more) {
        const tag = input.varint();
        const known = byNumber.get(Math.floor(tag / 8));
        if (known === undefined) input.skip(tag % 8);
        else found[known.name] = known.field.read(input, tag % 8, found[known.name]);
      }
      return found as T;
    },
  };
}
