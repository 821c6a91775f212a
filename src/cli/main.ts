#!/usr/bin/env node
// The process of the command `holdfast`.

import { useCompileCache } from "./compile-cache.ts";
import { recordInheritedFds } from "./descriptors.ts";
import { complain, flush } from "./output.ts";

/** EX_USAGE. exit-codes.ts is not loaded yet. */
const OLD_NODE = 64;

async function main(): Promise<void> {
  recordInheritedFds();
  useCompileCache();
  try {
    await import("../system/node-version.ts");
  } catch (error) {
    complain((error as Error).message);
    process.exit(OLD_NODE);
  }
  const { holdfast } = await import("./command.ts");
  const exitCode = await holdfast(process.argv.slice(2));
  // A pipe takes its time: exiting before it is empty would cut the output.
  await flush();
  // Exits by itself: a descriptor that the child left behind must not keep a wrapper alive that holds nothing
  // any more.
  process.exit(exitCode);
}

void main();
