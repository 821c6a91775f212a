// Libraries that are loaded in front of the C library of one process, to harm that process and nothing else: compiled when they are
// first needed and kept in the project's own scratch folder. Without a C compiler it fails by name.

import { execFile } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

const CACHE: string = join(import.meta.dirname, "..", ".tmp");
const FLAGS = ["-shared", "-fPIC", "-O2", "-Wall", "-Werror"];

/** Where the library is that `NAME.c` in this folder makes. */
export async function preloadLibrary(
  name: string,
  compiler: string = process.env["CC"] ?? "cc",
): Promise<string> {
  const source = join(import.meta.dirname, `${name}.c`);
  const hash = createHash("sha256").update(readFileSync(source)).digest("hex").slice(0, 12);
  const library = join(CACHE, `${name}-${process.arch}-${hash}.so`);
  if (existsSync(library)) return library;
  mkdirSync(CACHE, { recursive: true });
  // Several runs of one process may need it at once.
  const draft = `${library}.${randomUUID()}`;
  try {
    await promisify(execFile)(compiler, [...FLAGS, "-o", draft, source]);
  } catch (error) {
    const advice = "this fault needs a C compiler: install one (package gcc) or name it in CC";
    throw new Error(`${name}.c could not be compiled with ${compiler}: ${advice}`, { cause: error });
  }
  renameSync(draft, library);
  return library;
}
