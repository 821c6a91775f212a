// The servers that tests run against, for people: `npm run servers -- start redis` runs one until Ctrl-C,
// `npm run servers -- install redis` only fetches it, and `install default` everything that `npm test` needs.
// Tests call scripts/servers/*.ts directly.

import { findCompiler } from "./servers/compiler.ts";
import { findProgram } from "./servers/packages.ts";
import { kinds, type ServerKind } from "./servers/kinds.ts";
import type { RunningServer } from "./servers/process.ts";

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

async function main(args: readonly string[]): Promise<void> {
  const [command, ...names] = args;
  const group = GROUPS[names[0] ?? ""];
  const wanted = group ?? names;
  const chosen = wanted.map((name) => (Object.hasOwn(kinds, name) ? kinds[name] : undefined));
  const known = chosen.filter((kind) => kind !== undefined);
  if (known.length === 0 || known.length < names.length || (command !== "start" && command !== "install")) {
    console.error(USAGE);
    process.exitCode = 64;
    return;
  }
  await (command === "start" ? start(known) : install(known));
  if (command === "install" && group !== undefined) console.log((await findCompiler()).path);
}

main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
