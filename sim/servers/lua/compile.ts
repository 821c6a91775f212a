// A script made into a function of JavaScript, once; it then runs at the speed of what surrounds it. Only what the scripts use is
// known: whatever else is met is an error here, never a guess.

import { compileFunction } from "node:vm";
import { type Token, tokens } from "./tokens.ts";
import * as values from "./values.ts";
import type { Value } from "./values.ts";

/** Names that a script finds already there. */
export type Globals = Readonly<Record<string, Value>>;

const BINARY: readonly (readonly string[])[] = [
  ["or"],
  ["and"],
  ["<", ">", "<=", ">=", "~=", "=="],
  [".."],
  ["+", "-"],
  ["*", "/", "%"],
];

export function compile(script: string, globals: readonly string[]): (given: Globals) => readonly Value[] {
  const code = new Translation(tokens(script), globals).chunk();
  const made = compileFunction(code, ["$", "G"]) as (
    helpers: typeof values,
    given: Globals,
  ) => readonly Value[] | undefined;
  return (given) => made(values, given) ?? [];
}

class Translation {
  readonly #tokens: readonly Token[];
  readonly #globals: ReadonlySet<string>;
  #at = 0;
  #names = 0;
  /** Local names by block, the innermost last. */
  readonly #blocks: Map<string, string>[] = [];

  constructor(all: readonly Token[], globals: readonly string[]) {
    this.#tokens = all;
    this.#globals = new Set(globals);
  }

  chunk(): string {
    const body = this.#block();
    if (this.#now.kind !== "end") this.#fail("end of the script expected");
    return `"use strict";${body}`;
  }

  get #now(): Token {
    return this.#tokens[this.#at] as Token;
  }

  #is(text: string): boolean {
    return (this.#now.kind === "word" || this.#now.kind === "mark") && this.#now.text === text;
  }

  #takes(text: string): boolean {
    if (!this.#is(text)) return false;
    this.#at += 1;
    return true;
  }

  #must(text: string): void {
    if (!this.#takes(text)) this.#fail(`${text} expected`);
  }

  #name(): string {
    if (this.#now.kind !== "name") this.#fail("a name expected");
    const { text } = this.#now;
    this.#at += 1;
    return text;
  }

  #fail(what: string): never {
    throw new Error(`line ${this.#now.line}: ${what}, not ${JSON.stringify(this.#now.text)}`);
  }

  #declare(name: string): string {
    this.#names += 1;
    const own = `${name}_${this.#names}`;
    (this.#blocks.at(-1) as Map<string, string>).set(name, own);
    return own;
  }

  #resolve(name: string): string {
    const block = this.#blocks.findLast((one) => one.has(name));
    if (block !== undefined) return block.get(name) as string;
    // As in Redis itself, where a script may not use what is not there.
    if (!this.#globals.has(name)) throw new Error(`line ${this.#now.line}: nobody knows ${name}`);
    return `G.${name}`;
  }

  #block(declared: () => void = () => {}): string {
    this.#blocks.push(new Map());
    declared();
    let code = "";
    while (!["end", "else", "elseif", "until"].some((word) => this.#is(word)) && this.#now.kind !== "end") {
      if (this.#is("return")) {
        code += this.#returns();
        break;
      }
      code += this.#statement();
      this.#takes(";");
    }
    this.#blocks.pop();
    return `{${code}}`;
  }

  #returns(): string {
    this.#must("return");
    const over = ["end", "else", "elseif", "until", ";"].some((word) => this.#is(word));
    const all = over || this.#now.kind === "end" ? "[]" : this.#list();
    this.#takes(";");
    return `return ${all};`;
  }

  #statement(): string {
    if (this.#takes("local")) return this.#takes("function") ? this.#localFunction() : this.#local();
    if (this.#takes("if")) return this.#if();
    if (this.#takes("for")) return this.#for();
    if (this.#takes("break")) return "break;";
    if (this.#takes("while")) {
      const condition = this.#expression();
      this.#must("do");
      const body = this.#block();
      this.#must("end");
      return `while($.isTrue(${condition}))${body}`;
    }
    if (this.#takes("do")) {
      const body = this.#block();
      this.#must("end");
      return body;
    }
    return this.#assignmentOrCall();
  }

  #localFunction(): string {
    const own = this.#declare(this.#name());
    return `let ${own};${own}=${this.#function()};`;
  }

  #local(): string {
    const names = [this.#name()];
    while (this.#takes(",")) names.push(this.#name());
    const given = this.#takes("=") ? this.#given(names.length) : names.map(() => "undefined");
    const own = names.map((name) => this.#declare(name));
    if (typeof given === "string") return `let [${own.join()}]=${given};`;
    // All of them are worked out before the first is known.
    return `let ${own.map((name, at) => `${name}=${given[at] ?? "undefined"}`).join()};`;
  }

  /** So many values: each on its own, or a list where the last call may give several of them. */
  #given(wanted: number): readonly string[] | string {
    const all = [this.#expression()];
    while (this.#takes(",")) all.push(this.#expression());
    if (all.length >= wanted || !isCall(all.at(-1) as string)) return all;
    return listOf(all);
  }

  #if(): string {
    let code = `if($.isTrue(${this.#expression()}))`;
    this.#must("then");
    code += this.#block();
    for (;;) {
      if (this.#takes("elseif")) {
        code += `else if($.isTrue(${this.#expression()}))`;
        this.#must("then");
        code += this.#block();
      } else if (this.#takes("else")) code += `else${this.#block()}`;
      else break;
    }
    this.#must("end");
    return code;
  }

  #for(): string {
    const names = [this.#name()];
    if (this.#takes("=")) return this.#counting(names[0] as string);
    while (this.#takes(",")) names.push(this.#name());
    this.#must("in");
    const walk = this.#name();
    if (walk !== "pairs" && walk !== "ipairs") this.#fail("pairs or ipairs expected");
    this.#must("(");
    const over = this.#expression();
    this.#must(")");
    this.#must("do");
    let head = "";
    const body = this.#block(() => {
      const [key, value] = [names[0] as string, names[1] ?? "_"].map((name) => this.#declare(name));
      if (walk === "pairs") head = `for(let [${key},${value}] of ${over}.entries())`;
      else {
        this.#names += 1;
        const of = `of_${this.#names}`;
        head = `for(let ${key}=1,${of}=${over},${value};(${value}=$.index(${of},${key}))!==undefined;${key}++)`;
      }
    });
    this.#must("end");
    return head + body;
  }

  #counting(name: string): string {
    const from = this.#expression();
    this.#must(",");
    const to = this.#expression();
    const by = this.#takes(",") ? this.#expression() : "1";
    this.#must("do");
    this.#names += 1;
    const mark = this.#names;
    let own = "";
    const body = this.#block(() => {
      own = this.#declare(name);
    });
    this.#must("end");
    const [last, step] = [`last_${mark}`, `step_${mark}`];
    return `for(let ${own}=$.numberOf(${from}),${last}=$.numberOf(${to}),${step}=$.numberOf(${by});${step}>0?${own}<=${last}:${own}>=${last};${own}+=${step})${body}`;
  }

  #assignmentOrCall(): string {
    const first = this.#suffixed();
    if (isCall(first)) return `${first};`;
    const targets = [first];
    while (this.#takes(",")) targets.push(this.#suffixed());
    this.#must("=");
    const given = this.#given(targets.length);
    if (targets.length === 1 && typeof given !== "string") return assign(first, given[0] as string);
    this.#names += 1;
    const all = `all_${this.#names}`;
    const list = typeof given === "string" ? given : `[${given.join()}]`;
    return `{const ${all}=${list};${targets.map((target, at) => assign(target, `${all}[${at}]`)).join("")}}`;
  }

  /** One list of values; a call at its end gives all of its own. */
  #list(): string {
    const all = [this.#expression()];
    while (this.#takes(",")) all.push(this.#expression());
    return listOf(all);
  }

  #expression(level = 0): string {
    const marks = BINARY[level];
    if (marks === undefined) return this.#unary();
    let left = this.#expression(level + 1);
    for (;;) {
      const mark = marks.find((one) => this.#is(one));
      if (mark === undefined) return left;
      this.#at += 1;
      // To the right: a .. b .. c gives the same from either side.
      left = binary(mark, left, this.#expression(level + 1));
    }
  }

  #unary(): string {
    if (this.#takes("not")) return `(!$.isTrue(${this.#unary()}))`;
    if (this.#takes("-")) return `(-$.numberOf(${this.#unary()}))`;
    if (this.#takes("#")) return `$.length(${this.#unary()})`;
    return this.#simple();
  }

  #simple(): string {
    const token = this.#now;
    if (token.kind === "number" || token.kind === "text") {
      this.#at += 1;
      return token.kind === "number" ? String(Number(token.text)) : JSON.stringify(token.text);
    }
    if (this.#takes("nil")) return "undefined";
    if (this.#takes("true")) return "true";
    if (this.#takes("false")) return "false";
    if (this.#takes("function")) return this.#function();
    if (this.#is("{")) return this.#table();
    return this.#suffixed();
  }

  #suffixed(): string {
    let code: string;
    if (this.#takes("(")) {
      const inner = this.#expression();
      this.#must(")");
      // Only one value comes out of brackets.
      code = `(${inner})`;
    } else code = this.#resolve(this.#name());
    for (;;) {
      if (this.#takes(".")) code = `$.index(${code},${JSON.stringify(this.#name())})`;
      else if (this.#takes("[")) {
        code = `$.index(${code},${this.#expression()})`;
        this.#must("]");
      } else if (this.#takes("(")) {
        const args = this.#is(")") ? "[]" : this.#list();
        this.#must(")");
        code = `$.call(${code},${args})[0]`;
      } else return code;
    }
  }

  #function(): string {
    this.#must("(");
    const names: string[] = [];
    while (!this.#is(")")) {
      names.push(this.#name());
      if (!this.#takes(",")) break;
    }
    this.#must(")");
    let own: string[] = [];
    const body = this.#block(() => {
      own = names.map((name) => this.#declare(name));
    });
    this.#must("end");
    return `((${own.join()})=>{${body}return [];})`;
  }

  #table(): string {
    this.#must("{");
    const [listed, named]: [string[], string[]] = [[], []];
    while (!this.#is("}")) {
      if (this.#takes("[")) {
        const key = this.#expression();
        this.#must("]");
        this.#must("=");
        named.push(`[${key},${this.#expression()}]`);
      } else if (this.#now.kind === "name" && this.#tokens[this.#at + 1]?.text === "=") {
        const key = JSON.stringify(this.#name());
        this.#must("=");
        named.push(`[${key},${this.#expression()}]`);
      } else listed.push(this.#expression());
      if (!this.#takes(",") && !this.#takes(";")) break;
    }
    this.#must("}");
    return `$.table(${listed.length === 0 ? "[]" : listOf(listed)},[${named.join()}])`;
  }
}

function isCall(code: string): boolean {
  return code.startsWith("$.call(") && code.endsWith(")[0]");
}

function listOf(all: readonly string[]): string {
  const last = all.at(-1) as string;
  if (!isCall(last)) return `[${all.join()}]`;
  return `[${[...all.slice(0, -1), `...${last.slice(0, -"[0]".length)}`].join()}]`;
}

const READ = "$.index(";

function assign(target: string, value: string): string {
  if (target.startsWith("G.")) throw new Error(`${target.slice(2)} is none of the script's own`);
  return target.startsWith(READ)
    ? `$.put(${target.slice(READ.length, -1)},${value});`
    : `${target}=${value};`;
}

function binary(mark: string, a: string, b: string): string {
  switch (mark) {
    case "or":
      return `$.or(${a},()=>${b})`;
    case "and":
      return `$.and(${a},()=>${b})`;
    case "..":
      return `$.concat(${a},${b})`;
    case "==":
      return `(${a}===${b})`;
    case "~=":
      return `(${a}!==${b})`;
    case "<":
      return `$.less(${a},${b})`;
    case ">":
      return `$.less(${b},${a})`;
    case "<=":
      return `$.lessOrEqual(${a},${b})`;
    case ">=":
      return `$.lessOrEqual(${b},${a})`;
    case "%":
      return `$.modulo(${a},${b})`;
    default:
      return `($.numberOf(${a})${mark}$.numberOf(${b}))`;
  }
}
