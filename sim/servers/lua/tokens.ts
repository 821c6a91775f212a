// The words of a script, for the part of Lua 5.1 that the scripts are written in.

export type Token =
  | { readonly kind: "name" | "word" | "mark"; readonly text: string; readonly line: number }
  | { readonly kind: "text"; readonly text: string; readonly line: number }
  | { readonly kind: "number"; readonly text: string; readonly line: number }
  | { readonly kind: "end"; readonly text: ""; readonly line: number };

const WORDS = new Set(
  "and break do else elseif end false for function if in local nil not or repeat return then true until while".split(
    " ",
  ),
);

/** Longest marks first. */
const SHAPE =
  /(\s+|--[^\n]*)|([A-Za-z_]\w*)|(0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^#<>=(){}[\];:,.])/y;

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", 0: "\0" };

export function tokens(text: string): Token[] {
  const found: Token[] = [];
  let line = 1;
  SHAPE.lastIndex = 0;
  while (SHAPE.lastIndex < text.length) {
    const at = SHAPE.lastIndex;
    const match = SHAPE.exec(text);
    if (match === null) throw new Error(`line ${line}: what is ${JSON.stringify(text.slice(at, at + 10))}?`);
    const [all, blank, name, number, quoted, mark] = match;
    if (blank !== undefined) line += all.split("\n").length - 1;
    else if (name !== undefined) found.push({ kind: WORDS.has(name) ? "word" : "name", text: name, line });
    else if (number !== undefined) found.push({ kind: "number", text: number, line });
    else if (quoted !== undefined) found.push({ kind: "text", text: plain(quoted), line });
    else found.push({ kind: "mark", text: mark as string, line });
  }
  found.push({ kind: "end", text: "", line });
  return found;
}

function plain(quoted: string): string {
  return quoted.slice(1, -1).replaceAll(/\\(.)/g, (_all, char: string) => ESCAPES[char] ?? char);
}
