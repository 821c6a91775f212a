#!/usr/bin/env node
// The process of the command `holdfast`.

import { holdfast } from "./command.ts";
import { recordInheritedFds } from "./descriptors.ts";
import { flush, tolerateClosedPipes } from "./output.ts";

recordInheritedFds();
tolerateClosedPipes();
const exitCode = await holdfast(process.argv.slice(2));
// A pipe takes its time: exiting before it is empty would cut the output.
await flush();
// Exits by itself: a descriptor that the child left behind must not keep a wrapper alive that holds nothing
// any more.
process.exit(exitCode);
