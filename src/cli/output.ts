// The two ways out. stdout carries results and nothing else; stderr carries words for people, each on one
// line.
// A reader that went away (`holdfast ls | head`) is no failure, and must never end a command that holds a
// key.

import { clean, json } from "./words.ts";

/** Call it once, before anything is written. */
export function tolerateClosedPipes(): void {
  process.stdout.on("error", () => {});
  process.stderr.on("error", () => {});
}

/** Resolves when all output has left this process. Nothing is expected of a reader that went away. */
export async function flush(): Promise<void> {
  const flushed = (stream: NodeJS.WriteStream): Promise<void> =>
    new Promise((resolve) => stream.write("", () => resolve()));
  await Promise.all([flushed(process.stdout), flushed(process.stderr)]);
}

export function print(text: string): void {
  process.stdout.write(text);
}

export function printJson(value: unknown): void {
  print(`${json(value)}\n`);
}

export function complain(text: string): void {
  process.stderr.write(`holdfast: ${clean(text)}\n`);
}

/** The same for scripts: one object on stderr. */
export function complainJson(value: unknown): void {
  process.stderr.write(`${json(value)}\n`);
}
