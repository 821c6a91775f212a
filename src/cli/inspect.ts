// `holdfast inspect KEY`: who holds it and who waits. Reads only; a free key is an answer, not an error.

import { lockJson, lockLines } from "./lock-view.ts";
import { openForReading, type StoreFlags } from "./options.ts";
import { print, printJson } from "./output.ts";

export async function inspect(key: string, flags: StoreFlags): Promise<number> {
  const locks = await openForReading(flags);
  try {
    const info = await locks.inspect(key);
    if (flags.json) printJson(lockJson(key, info));
    else print(`${lockLines(key, info).join("\n")}\n`);
    return 0;
  } finally {
    await locks.close();
  }
}
