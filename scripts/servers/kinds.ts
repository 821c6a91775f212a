// The servers that this project can start, by name. A new kind is one file beside this one and one line here.

import type { Program } from "./packages.ts";
import type { RunningServer } from "./process.ts";
import { redisProgram, startRedis } from "./redis.ts";

export interface ServerKind {
  readonly programs: readonly Program[];
  start(): Promise<RunningServer>;
}

export const kinds: Readonly<Record<string, ServerKind>> = {
  redis: { programs: [redisProgram], start: () => startRedis() },
};
