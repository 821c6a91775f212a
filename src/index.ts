// `holdfast`: the public surface, with every store by URL. Re-exports only.

export { createLocks } from "./create-locks.ts";
export * from "./surface.ts";
