// Libraries that are loaded in front of the C library of one process, to harm that process and nothing else. They
// are compiled when they are first needed and kept in the project's own scratch folder.

import { execFile } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { findCompiler } from "../scripts/servers/compiler.ts";

const CACHE: string = join(import.meta.dirname, "..", ".tmp");
const FLAGS = ["-shared", "-fPIC", "-O2", "-Wall", "-Werror"];

/** Where the library is that `NAME.c` in this folder makes. */
export async function preloadLibrary(name: string): Promise<string> {
  const source = join(import.meta.dirname, `${name}.c`);
  const hash = createHash("sha256").update(readFileSync(source)).digest("hex").slice(0, 12);
  const library = join(CACHE, `${name}-${process.arch}-${hash}.so`);
  if (existsSync(library)) return library;
  mkdirSync(CACHE, { recursive: true });
  // Several runs of one process may need it at once.
  const draft = `${library}.${randomUUID()}`;
  const { path, args, env } = await findCompiler();
  try {
    await promisify(execFile)(path, [...args, ...FLAGS, "-o", draft, source], { env });
  } catch (error) {
    throw new Error(`${name}.c could not be compiled with ${path}`, { cause: error });
  }
  renameSync(draft, library);
  return library;
}
