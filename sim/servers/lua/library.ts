// What a script in Redis finds of Lua's own library, as far as the scripts use it.

import { packed, unpacked } from "./msgpack.ts";
import {
  call,
  isTrue,
  LuaError,
  type LuaFunction,
  numberOf,
  Table,
  toNumber,
  toText,
  typeOf,
  type Value,
} from "./values.ts";

type Functions = Readonly<Record<string, LuaFunction>>;

function library(functions: Functions): Table {
  const table = new Table();
  for (const [name, one] of Object.entries(functions)) table.set(name, one);
  return table;
}

const one = (value: Value): readonly Value[] => [value];

function tableOf(value: Value): Table {
  if (value instanceof Table) return value;
  throw new LuaError(`table expected, got ${typeOf(value)}`);
}

/** Text or a number, as every function of strings takes it. */
function textOf(value: Value): string {
  if (typeof value === "string" || typeof value === "number") return toText(value);
  throw new LuaError(`string expected, got ${typeOf(value)}`);
}

const string = library({
  sub: (text, from, to) => one(sub(textOf(text), numberOf(from), to === undefined ? -1 : numberOf(to))),
  format: (form, ...args) => one(format(textOf(form), args)),
  match(text, pattern, from) {
    const found = matched(textOf(text), textOf(pattern), from === undefined ? 1 : numberOf(from));
    if (found === null) return one(undefined);
    return found.length === 1 ? one(found[0]) : found.slice(1);
  },
  find(text, what, from, plain) {
    if (!isTrue(plain)) throw new LuaError("only plain text is found here");
    const at = textOf(text).indexOf(textOf(what), numberOf(from) - 1);
    return at === -1 ? one(undefined) : [at + 1, at + textOf(what).length];
  },
});

const table = library({
  insert(into, at, value) {
    const { list } = tableOf(into);
    if (value === undefined) list.push(at);
    else list.splice(numberOf(at) - 1, 0, value);
    return [];
  },
  remove(from, at) {
    const { list } = tableOf(from);
    const where = at === undefined ? list.length : numberOf(at);
    return where < 1 || where > list.length ? [] : list.splice(where - 1, 1);
  },
  concat: (of, between) =>
    one(
      tableOf(of)
        .list.map(textOf)
        .join(between === undefined ? "" : textOf(between)),
    ),
});

const math = library({
  abs: (x) => one(Math.abs(numberOf(x))),
  ceil: (x) => one(Math.ceil(numberOf(x))),
  floor: (x) => one(Math.floor(numberOf(x))),
  max: (...all) => one(Math.max(...all.map(numberOf))),
  min: (...all) => one(Math.min(...all.map(numberOf))),
});

const cmsgpack = library({
  pack: (...all) => one(packed(all)),
  unpack: (bytes) => unpacked(textOf(bytes)),
});

export const luaLibrary: Readonly<Record<string, Value>> = {
  string,
  table,
  math,
  cmsgpack,
  pcall(run, ...args) {
    try {
      return [true, ...call(run, args)];
    } catch (error) {
      // What a command refused comes as a table, what Lua did as a text.
      if (!(error instanceof Error) || !["LuaError", "ReplyError"].includes(error.name)) throw error;
      if (error instanceof LuaError) return [false, error.message];
      const told = new Table();
      told.set("err", error.message);
      return [false, told];
    }
  },
  tonumber: (value) => one(toNumber(value)),
  tostring: (value) => one(toText(value)),
  type: (value) => one(typeOf(value)),
  next: (of) => tableOf(of).entries()[0] ?? one(undefined),
  error: (what) => {
    throw new LuaError(toText(what));
  },
};

function sub(text: string, from: number, to: number): string {
  const start = from < 0 ? Math.max(0, text.length + from) : Math.max(0, from - 1);
  return text.slice(start, Math.max(start, to < 0 ? text.length + to + 1 : to));
}

function format(form: string, args: readonly Value[]): string {
  let next = 0;
  return form.replaceAll(
    /%(0?)(\d*)(?:\.(\d+))?([dfs%])/g,
    (_all, zero: string, width: string, digits: string | undefined, kind: string) => {
      if (kind === "%") return "%";
      const value = args[next];
      next += 1;
      const text =
        kind === "s"
          ? toText(value)
          : kind === "d"
            ? String(Math.trunc(numberOf(value)))
            : fixed(numberOf(value), Number(digits ?? 6));
      return text.padStart(Number(width), zero === "" ? " " : "0");
    },
  );
}

/** As C rounds: what is exactly between two goes to the even one. */
function fixed(number: number, digits: number): string {
  const below = Math.floor(number);
  if (digits === 0 && number - below === 0.5) return String(below % 2 === 0 ? below : below + 1);
  return number.toFixed(digits);
}

const known = new Map<string, RegExp>();

function matched(text: string, pattern: string, from: number): RegExpExecArray | null {
  const shape = known.get(pattern) ?? expression(pattern);
  known.set(pattern, shape);
  shape.lastIndex = from - 1;
  return shape.exec(text);
}

/** Lua's patterns are simpler: a percent sign for a class, a minus for as few as possible. */
function expression(pattern: string): RegExp {
  const anchored = pattern.startsWith("^");
  const body = (anchored ? pattern.slice(1) : pattern).replaceAll(/%d|%.|[-.[\]{}\\|^/]/g, (part) => {
    if (part === "%d") return "[0-9]";
    if (part === "%a") return "[A-Za-z]";
    if (part.startsWith("%") || part === "[" || part === "]")
      throw new LuaError(`the pattern ${pattern} is not known here`);
    if (part === ".") return "[^]";
    return part === "-" ? "*?" : `\\${part}`;
  });
  return new RegExp(body, anchored ? "y" : "g");
}
