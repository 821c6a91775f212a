// `holdfast/core`: the public surface for a store object. It knows no URL, so a bundler that follows it
// includes no other store and no other client. Re-exports only.

import "./system/node-version.ts";

export { createLocksFor as createLocks } from "./create-locks-for.ts";
export * from "./surface.ts";
