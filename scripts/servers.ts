// The servers that tests run against, for people: `npm run servers -- start redis` runs one until Ctrl-C,
// `npm run servers -- install redis` only fetches it, and `install default` everything that `npm test` needs.
// Tests call scripts/servers/*.ts directly.

import { findCompiler } from "./servers/compiler.ts";
import { findProgram } from "./servers/packages.ts";
import { kinds, type ServerKind } from "./servers/kinds.ts";
import type { RunningServer } from "./servers/process.ts";
import { readUsage } from "./usage.mjs";

const GROUPS: Readonly<Record<string, readonly string[]>> = {
  all: Object.keys(kinds),
  default: Object.keys(kinds).filter((name) => kinds[name]?.isLong !== true),
};
const NAMES = [...Object.keys(kinds), ...Object.keys(GROUPS)].join(", ");
const USAGE = `usage: npm run servers -- start|install NAME...    (names: ${NAMES})`;

async function install(chosen: readonly ServerKind[]): Promise<void> {
  for (const { programs, cache } of chosen) {
    for (const program of programs) console.log((await findProgram(program, cache?.())).path);
  }
}

async function start(chosen: readonly ServerKind[]): Promise<void> {
  const asked = new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => resolve());
  });
  const awake = setInterval(() => {}, 60_000);
  const running: RunningServer[] = [];
  try {
    for (const kind of chosen) {
      const server = await kind.start();
      running.push(server);
      console.log(server.url);
    }
    await asked;
  } finally {
    await Promise.all(running.map((server) => server.stop()));
    clearInterval(awake);
  }
}

interface Asked {
  readonly command: "start" | "install";
  readonly chosen: readonly ServerKind[];
  /** A group was named, whose members need the compiler too. */
  readonly isGroup: boolean;
}

function parse([command, ...names]: readonly string[]): Asked {
  if (command !== "start" && command !== "install") throw new Error("say start or install");
  if (names.length === 0) throw new Error("name a server");
  const group = GROUPS[names[0] as string];
  const chosen = (group ?? names).map((name) => {
    const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined;
    if (kind === undefined) throw new Error(`there is no server ${name}`);
    return kind;
  });
  return { command, chosen, isGroup: group !== undefined };
}

async function obey({ command, chosen, isGroup }: Asked): Promise<void> {
  await (command === "start" ? start(chosen) : install(chosen));
  if (command === "install" && isGroup) console.log((await findCompiler()).path);
}

obey(readUsage(USAGE, parse)).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
