// MessagePack as the scripts write and read it (cmsgpack), for the values that records are made of: text, numbers, lists and
// tables. An empty Lua table is an empty list; here it is read as such, and its reader says what it is.

export type Packed =
  | string
  | number
  | boolean
  | null
  | readonly Packed[]
  | { readonly [name: string]: Packed };

const INT_LIMIT = 2 ** 53;

export function pack(...values: readonly Packed[]): Buffer {
  const parts: Buffer[] = [];
  for (const value of values) put(parts, value);
  return Buffer.concat(parts);
}

function put(parts: Buffer[], value: Packed): void {
  if (typeof value === "number") parts.push(number(value));
  else if (typeof value === "string") parts.push(...text(value));
  else if (typeof value === "boolean") parts.push(Buffer.of(value ? 0xc3 : 0xc2));
  else if (value === null) parts.push(Buffer.of(0xc0));
  else if (Array.isArray(value)) {
    parts.push(size(value.length, 0xdd));
    for (const one of value as readonly Packed[]) put(parts, one);
  } else {
    const entries = Object.entries(value);
    parts.push(size(entries.length, 0xdf));
    for (const [name, one] of entries) {
      parts.push(...text(name));
      put(parts, one);
    }
  }
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(9);
  if (Number.isInteger(value) && Math.abs(value) < INT_LIMIT) {
    bytes[0] = 0xd3;
    bytes.writeBigInt64BE(BigInt(value), 1);
  } else {
    bytes[0] = 0xcb;
    bytes.writeDoubleBE(value, 1);
  }
  return bytes;
}

function text(value: string): [Buffer, Buffer] {
  const bytes = Buffer.from(value);
  return [size(bytes.length, 0xdb), bytes];
}

function size(count: number, sign: number): Buffer {
  const bytes = Buffer.alloc(5);
  bytes[0] = sign;
  bytes.writeUInt32BE(count, 1);
  return bytes;
}

/** All values, one behind the other. */
export function unpack(bytes: Buffer): Packed[] {
  const reader = new Reader(bytes);
  const values: Packed[] = [];
  while (!reader.done) values.push(reader.value());
  return values;
}

class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length;
  }

  value(): Packed {
    const sign = this.#bytes.readUInt8(this.#skip(1));
    if (sign <= 0x7f) return sign;
    if (sign >= 0xe0) return sign - 0x100;
    if (sign <= 0x8f) return this.#table(sign & 0x0f);
    if (sign <= 0x9f) return this.#list(sign & 0x0f);
    if (sign <= 0xbf) return this.#text(sign & 0x1f);
    if (sign >= 0xca && sign <= 0xd3) return this.#number(sign);
    return this.#rest(sign);
  }

  #rest(sign: number): Packed {
    switch (sign) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.#text(this.#unsigned(2 ** (sign - 0xd9)));
      case 0xdc:
      case 0xdd:
        return this.#list(this.#unsigned(2 ** (sign - 0xdb)));
      case 0xde:
      case 0xdf:
        return this.#table(this.#unsigned(2 ** (sign - 0xdd)));
      default:
        throw new Error(`HOLDFAST-FOREIGN (sign ${sign})`);
    }
  }

  #number(sign: number): number {
    if (sign === 0xca) return this.#bytes.readFloatBE(this.#skip(4));
    if (sign === 0xcb) return this.#bytes.readDoubleBE(this.#skip(8));
    const bytes = 2 ** ((sign - 0xcc) % 4);
    if (sign <= 0xcf) return this.#unsigned(bytes);
    if (bytes === 8) return Number(this.#bytes.readBigInt64BE(this.#skip(8)));
    return this.#bytes.readIntBE(this.#skip(bytes), bytes);
  }

  #unsigned(bytes: number): number {
    if (bytes === 8) return Number(this.#bytes.readBigUInt64BE(this.#skip(8)));
    return this.#bytes.readUIntBE(this.#skip(bytes), bytes);
  }

  #text(length: number): string {
    const start = this.#skip(length);
    return this.#bytes.toString("utf8", start, start + length);
  }

  #list(count: number): Packed[] {
    this.#fits(count);
    return Array.from({ length: count }, () => this.value());
  }

  #table(count: number): Packed {
    this.#fits(2 * count);
    const entries = Array.from({ length: count }, () => [this.value(), this.value()] as const);
    return Object.fromEntries(entries.map(([name, value]) => [name as string, value]));
  }

  /** Whether there are so many bytes, or values of at least one each: a length that was damaged may claim anything. */
  #fits(count: number): void {
    if (this.#at + count > this.#bytes.length) throw new Error("HOLDFAST-FOREIGN");
  }

  /** Where the next so many bytes begin. */
  #skip(count: number): number {
    const start = this.#at;
    this.#fits(count);
    this.#at += count;
    return start;
  }
}
