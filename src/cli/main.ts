#!/usr/bin/env node
// The process of the command `holdfast`.

import { useCompileCache } from "./compile-cache.ts";
import { recordInheritedFds } from "./descriptors.ts";
import { printError, flush } from "./output.ts";

/** exit-codes.ts is not loaded yet. */
const EX_USAGE = 64;

async function main(): Promise<void> {
  recordInheritedFds();
  useCompileCache();
  try {
    await import("../system/node-version.ts");
  } catch (error) {
    printError((error as Error).message);
    process.exit(EX_USAGE);
  }
  const { holdfast } = await import("./command.ts");
  const exitCode = await holdfast(process.argv.slice(2));
  // A pipe is written to asynchronously: exiting earlier would cut the output.
  await flush();
  // Does not wait for open handles: a descriptor of a background process must not keep this process alive.
  process.exit(exitCode);
}

void main();
