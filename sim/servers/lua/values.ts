// Values as Lua has them. nil is undefined, a string is a string of bytes (one per character), everything else that is not a number,
// a boolean or a function is a table.

export type Value = undefined | boolean | number | string | Table | LuaFunction;
/** Gives all its values; whoever wants one takes the first. */
export type LuaFunction = (...args: Value[]) => readonly Value[];

export class Table {
  /** What stands under 1, 2, 3 and so on without a gap. */
  readonly list: Value[] = [];
  readonly named = new Map<Value, Value>();

  static of(list: readonly Value[]): Table {
    const made = new Table();
    made.list.push(...list);
    return made;
  }

  get(key: Value): Value {
    if (typeof key === "number" && key >= 1 && key <= this.list.length) return this.list[key - 1];
    return this.named.get(key);
  }

  set(key: Value, value: Value): void {
    if (key === undefined) throw new LuaError("table index is nil");
    const { list } = this;
    if (typeof key !== "number" || key < 1 || key > list.length + 1 || !Number.isInteger(key)) {
      if (value === undefined) this.named.delete(key);
      else this.named.set(key, value);
    } else if (key <= list.length) {
      list[key - 1] = value;
      while (list.length > 0 && list.at(-1) === undefined) list.pop();
    } else if (value !== undefined) {
      list.push(value);
      for (let next = list.length + 1; this.named.has(next); next += 1) {
        list.push(this.named.get(next));
        this.named.delete(next);
      }
    }
  }

  /** As it is now: what is taken out meanwhile is still seen. */
  entries(): (readonly [Value, Value])[] {
    const listed = this.list.map((value, at) => [at + 1, value] as const);
    return [...listed.filter(([, value]) => value !== undefined), ...this.named];
  }
}

export class LuaError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "LuaError";
  }
}

export function isTrue(value: Value): boolean {
  return value !== undefined && value !== false;
}

const NUMERAL = /^\s*[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|0[xX][0-9a-fA-F]+)\s*$/;

/** undefined where it is none. */
export function toNumber(value: Value): number | undefined {
  if (typeof value === "number") return value;
  return typeof value === "string" && NUMERAL.test(value) ? Number(value) : undefined;
}

export function numberOf(value: Value): number {
  const number = typeof value === "number" ? value : toNumber(value);
  if (number === undefined) throw new LuaError(`number expected, got ${typeOf(value)}`);
  return number;
}

/** A number as Lua writes it: fourteen digits and no more. */
export function toText(value: Value): string {
  if (typeof value === "string") return value;
  if (typeof value === "number") return general(value, 14);
  if (value === undefined) return "nil";
  return typeof value === "boolean" ? String(value) : typeOf(value);
}

/** As %.Ng of C. */
export function general(number: number, digits: number): string {
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "nan" : number > 0 ? "inf" : "-inf";
  const [mantissa, exponent = "0"] = number.toExponential(digits - 1).split("e") as [string, string?];
  const power = Number(exponent);
  if (power >= -4 && power < digits) return trim(number.toFixed(Math.max(0, digits - 1 - power)));
  return `${trim(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}

function trim(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

export function typeOf(value: Value): string {
  if (value === undefined) return "nil";
  if (value instanceof Table) return "table";
  return typeof value;
}

export function concat(a: Value, b: Value): string {
  for (const value of [a, b])
    if (typeof value !== "string" && typeof value !== "number")
      throw new LuaError(`attempt to concatenate a ${typeOf(value)} value`);
  return toText(a) + toText(b);
}

export function index(of: Value, key: Value): Value {
  if (of instanceof Table) return of.get(key);
  throw new LuaError(`attempt to index a ${typeOf(of)} value with ${toText(key)}`);
}

export function put(of: Value, key: Value, value: Value): void {
  if (!(of instanceof Table))
    throw new LuaError(`attempt to index a ${typeOf(of)} value with ${toText(key)}`);
  of.set(key, value);
}

export function less(a: Value, b: Value): boolean {
  if (typeof a === "number" && typeof b === "number") return a < b;
  // Bytes compare as their characters do.
  if (typeof a === "string" && typeof b === "string") return a < b;
  throw new LuaError(`attempt to compare ${typeOf(a)} with ${typeOf(b)}`);
}

export function lessOrEqual(a: Value, b: Value): boolean {
  return !less(b, a);
}

export function length(of: Value): number {
  if (typeof of === "string") return of.length;
  if (of instanceof Table) return of.list.length;
  throw new LuaError(`attempt to get length of a ${typeOf(of)} value`);
}

export function call(of: Value, args: readonly Value[]): readonly Value[] {
  if (typeof of !== "function") throw new LuaError(`attempt to call a ${typeOf(of)} value`);
  return of(...args);
}

export function and(a: Value, b: () => Value): Value {
  return isTrue(a) ? b() : a;
}

export function or(a: Value, b: () => Value): Value {
  return isTrue(a) ? a : b();
}

export function modulo(a: Value, b: Value): number {
  const [x, y] = [numberOf(a), numberOf(b)];
  return x - Math.floor(x / y) * y;
}

export function table(listed: readonly Value[], named: readonly (readonly [Value, Value])[]): Table {
  const made = Table.of(listed);
  while (made.list.length > 0 && made.list.at(-1) === undefined) made.list.pop();
  for (const [key, value] of named) made.set(key, value);
  return made;
}
