// Blanks out the comments of TypeScript and, on request, its strings. Every character keeps its position,
// so line numbers stay right. This is not a parser: it only tells code from text.

const REGEX_MAY_FOLLOW =
  /(^|[(,=:[!&|?{};+\-*%<>~^]|\b(return|typeof|case|in|of|void|await|throw|delete))\s*$/;

export interface Kept {
  readonly strings: boolean;
}

export function codeOf(text: string, kept: Kept): string {
  return new Scanner(text, kept).run();
}

class Scanner {
  readonly #text: string;
  readonly #kept: Kept;
  #at = 0;
  #out = "";

  constructor(text: string, kept: Kept) {
    this.#text = text;
    this.#kept = kept;
  }

  run(): string {
    while (this.#at < this.#text.length) this.#code();
    return this.#out;
  }

  #code(): void {
    const rest = this.#text.slice(this.#at, this.#at + 2);
    const char = rest[0] as string;
    if (rest === "//") this.#take(this.#find("\n"), false);
    else if (rest === "/*") this.#take(this.#find("*/") + 2, false);
    else if (char === '"' || char === "'") this.#take(this.#endOfQuoted(char), this.#kept.strings);
    else if (char === "`") this.#template();
    else if (char === "/" && REGEX_MAY_FOLLOW.test(this.#out.slice(-40)))
      this.#take(this.#endOfRegex(), false);
    else this.#take(this.#at + 1, true);
  }

  /** The text of a template is blanked like a string; what stands in `${}` is code. */
  #template(): void {
    this.#take(this.#at + 1, true);
    while (this.#at < this.#text.length) {
      if (this.#text[this.#at] === "`") return this.#take(this.#at + 1, true);
      if (this.#text.startsWith("${", this.#at)) this.#insert();
      else this.#take(this.#at + (this.#text[this.#at] === "\\" ? 2 : 1), this.#kept.strings);
    }
  }

  #insert(): void {
    this.#take(this.#at + 2, true);
    for (let depth = 1; depth > 0 && this.#at < this.#text.length;) {
      const char = this.#text[this.#at];
      if (char === "{") depth += 1;
      if (char === "}") depth -= 1;
      this.#code();
    }
  }

  #endOfQuoted(quote: string): number {
    let at = this.#at + 1;
    while (at < this.#text.length && this.#text[at] !== quote && this.#text[at] !== "\n") {
      at += this.#text[at] === "\\" ? 2 : 1;
    }
    return at + 1;
  }

  #endOfRegex(): number {
    let inClass = false;
    for (let at = this.#at + 1; at < this.#text.length; at += 1) {
      const char = this.#text[at];
      if (char === "\n") return this.#at + 1;
      if (char === "\\") at += 1;
      else if (char === "[") inClass = true;
      else if (char === "]") inClass = false;
      else if (char === "/" && !inClass) return at + 1;
    }
    return this.#text.length;
  }

  #find(mark: string): number {
    const at = this.#text.indexOf(mark, this.#at);
    return at === -1 ? this.#text.length : at;
  }

  #take(end: number, visible: boolean): void {
    const piece = this.#text.slice(this.#at, end);
    this.#out += visible ? piece : piece.replace(/[^\n]/g, " ");
    this.#at = end;
  }
}
