// cmsgpack as Redis gives it to scripts: strings are bytes, a table whose keys are 1 to n is a list, and so is an empty one.

import { LuaError, Table, type Value } from "./values.ts";

const INT_LIMIT = 2 ** 53;

export function packed(values: readonly Value[]): string {
  return values.map(put).join("");
}

function put(value: Value): string {
  if (typeof value === "string") return size(value.length, 0xa0, 0xdb, 31) + value;
  if (typeof value === "number") return number(value);
  if (value === undefined) return "\xc0";
  if (typeof value === "boolean") return value ? "\xc3" : "\xc2";
  if (!(value instanceof Table)) throw new LuaError("a function cannot be packed");
  const { list, named } = value;
  if (named.size === 0) return size(list.length, 0x90, 0xdd, 15) + packed(list);
  const entries = value.entries();
  return size(entries.length, 0x80, 0xdf, 15) + entries.map(([key, one]) => put(key) + put(one)).join("");
}

function number(value: number): string {
  if (Number.isInteger(value) && value >= 0 && value < 128) return String.fromCharCode(value);
  const bytes = Buffer.alloc(9);
  if (Number.isInteger(value) && Math.abs(value) < INT_LIMIT) {
    bytes[0] = 0xd3;
    bytes.writeBigInt64BE(BigInt(value), 1);
  } else {
    bytes[0] = 0xcb;
    bytes.writeDoubleBE(value, 1);
  }
  return bytes.toString("latin1");
}

function size(count: number, small: number, large: number, most: number): string {
  if (count <= most) return String.fromCharCode(small | count);
  const bytes = Buffer.alloc(5);
  bytes[0] = large;
  bytes.writeUInt32BE(count, 1);
  return bytes.toString("latin1");
}

/** All values, one behind the other. */
export function unpacked(text: string): Value[] {
  const reader = new Reader(Buffer.from(text, "latin1"));
  const values: Value[] = [];
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

  value(): Value {
    const sign = this.#bytes.readUInt8(this.#skip(1));
    if (sign <= 0x7f) return sign;
    if (sign >= 0xe0) return sign - 0x100;
    if (sign <= 0x8f) return this.#table(sign & 0x0f);
    if (sign <= 0x9f) return this.#list(sign & 0x0f);
    if (sign <= 0xbf) return this.#text(sign & 0x1f);
    if (sign === 0xc0) return undefined;
    if (sign === 0xc2 || sign === 0xc3) return sign === 0xc3;
    if (sign === 0xcb) return this.#bytes.readDoubleBE(this.#skip(8));
    if (sign === 0xd3) return Number(this.#bytes.readBigInt64BE(this.#skip(8)));
    const count = this.#bytes.readUInt32BE(this.#skip(4));
    if (sign === 0xdb) return this.#text(count);
    if (sign === 0xdd) return this.#list(count);
    if (sign === 0xdf) return this.#table(count);
    throw new LuaError(`the sign ${sign} is not known here`);
  }

  #text(length: number): string {
    const start = this.#skip(length);
    return this.#bytes.toString("latin1", start, start + length);
  }

  #list(count: number): Table {
    return Table.of(Array.from({ length: count }, () => this.value()));
  }

  #table(count: number): Table {
    const table = new Table();
    for (let i = 0; i < count; i += 1) table.set(this.value(), this.value());
    return table;
  }

  #skip(count: number): number {
    const start = this.#at;
    this.#at += count;
    return start;
  }
}
