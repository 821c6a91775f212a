// stdout and stderr of the command. Results go to stdout; messages go to stderr, one line each. A reader that
// has closed its end (`holdfast ls | head`) is not a failure and must never end a command that holds a key.

import { escapeControls, toSafeJson } from "./format.ts";

/** Opened on first use: Node takes some milliseconds to make a stream, which most runs do not need. */
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

  /** Resolves when this process has written all output, or its reader has closed the pipe. */
  async flush(): Promise<void> {
    const stream = this.#stream;
    if (stream !== null) await new Promise<void>((resolve) => stream.write("", () => resolve()));
  }
}

const out = new Output(() => process.stdout);
const err = new Output(() => process.stderr);

/** stdout with its errors ignored. Use it instead of process.stdout, so that `flush` waits for it. */
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
  print(`${toSafeJson(value)}\n`);
}

export function printError(text: string): void {
  stderr().write(`holdfast: ${escapeControls(text)}\n`);
}

/** For scripts: one JSON object on stderr. */
export function printErrorJson(value: unknown): void {
  stderr().write(`${toSafeJson(value)}\n`);
}
