// A C compiler for the libraries that tests load in front of the C library of one process: the one that CC names,
// cc from PATH, or Debian's gcc unpacked beside the servers.

import { delimiter, join } from "node:path";
import { type FoundProgram, findProgram, type Program } from "./packages.ts";

const compilerProgram: Program = {
  name: "gcc",
  packages: ["gcc", "libc6-dev"],
  advice: "install a C compiler (package gcc), or name one in CC",
};

export interface Compiler {
  readonly path: string;
  /** Come before all other arguments. */
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

export async function findCompiler(): Promise<Compiler> {
  const named = process.env["CC"];
  if (named !== undefined) return { path: named, args: [], env: process.env };
  return compilerFrom(await findProgram(compilerProgram));
}

function compilerFrom({ path, tree, env }: FoundProgram): Compiler {
  if (tree === null) return { path, args: [], env: process.env };
  const programs = join(tree, "usr", "bin");
  return {
    path,
    // The C library itself is not in the tree. A shared library finds its symbols when it is loaded.
    args: [`--sysroot=${tree}`, "-B", programs, "-nostdlib"],
    env: { ...process.env, ...env, PATH: [programs, process.env["PATH"]].join(delimiter) },
  };
}
