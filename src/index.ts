// `holdfast`: the public surface, with every store by URL. Re-exports only.

import "./system/node-version.ts";

export { createLocks } from "./create-locks.ts";
export * from "./surface.ts";
