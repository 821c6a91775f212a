// `holdfast ls`: lists every key that is held or waited for. No locks are an empty list, not an error.

import type { LockInfo } from "../surface.ts";
import { LS_HEAD, lockJson, lockRow } from "./lock-view.ts";
import { openForReading, type StoreFlags } from "./options.ts";
import { print, printJson } from "./output.ts";
import { renderTable } from "./format.ts";

export interface LsFlags extends StoreFlags {
  readonly prefix?: string;
  readonly limit?: number;
}

export async function ls(flags: LsFlags): Promise<number> {
  const locks = await openForReading(flags);
  const { prefix, limit } = flags;
  try {
    const found: LockInfo[] = [];
    const options = {
      ...(prefix === undefined ? {} : { prefix }),
      ...(limit === undefined ? {} : { limit }),
    };
    for await (const info of locks.list(options)) {
      if (flags.json) printJson(lockJson(info.key, info));
      else found.push(info);
    }
    found.sort((a, b) => (a.key < b.key ? -1 : 1));
    if (found.length > 0) print(renderTable([LS_HEAD, ...found.map(lockRow)]));
    return 0;
  } finally {
    await locks.close();
  }
}
