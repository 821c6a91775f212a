// The two ways out. stdout carries results and nothing else; stderr carries words for people, each on one
// line.
// A reader that went away (`holdfast ls | head`) is no failure, and must never end a command that holds a
// key.

import { clean, json } from "./words.ts";

/** Made by Node when first used, which `run` spares itself where it can: a stream takes some milliseconds. */
class Output {
  readonly #open: () => NodeJS.WriteStream;
  #stream: NodeJS.WriteStream | null = null;

  constructor(open: () => NodeJS.WriteStream) {
    this.#open = open;
  }

  get stream(): NodeJS.WriteStream {
    if (this.#stream === null) {
      this.#stream = this.#open();
      this.#stream.on("error", () => {});
    }
    return this.#stream;
  }

  /** Resolves when all output has left this process. Nothing is expected of a reader that went away. */
  async flush(): Promise<void> {
    const stream = this.#stream;
    if (stream !== null) await new Promise<void>((resolve) => stream.write("", () => resolve()));
  }
}

const out = new Output(() => process.stdout);
const err = new Output(() => process.stderr);

/** stdout, whose errors are not fatal. Use it instead of process.stdout, so that `flush` knows of it. */
export function stdout(): NodeJS.WriteStream {
  return out.stream;
}

/** The same for stderr. */
export function stderr(): NodeJS.WriteStream {
  return err.stream;
}

export async function flush(): Promise<void> {
  await Promise.all([out.flush(), err.flush()]);
}

export function print(text: string): void {
  stdout().write(text);
}

export function printJson(value: unknown): void {
  print(`${json(value)}\n`);
}

export function complain(text: string): void {
  stderr().write(`holdfast: ${clean(text)}\n`);
}

/** The same for scripts: one object on stderr. */
export function complainJson(value: unknown): void {
  stderr().write(`${json(value)}\n`);
}
