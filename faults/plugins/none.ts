// No fault at all: what the other runs are compared with.

import { nothing, type Plugin } from "./plugin.ts";

export const none = (): Plugin => ({
  name: "none",
  everyMs: [1_000, 1_000],
  start: nothing,
  strike: nothing,
  stop: nothing,
});
