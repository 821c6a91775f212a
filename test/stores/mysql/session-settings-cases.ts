// Whatever the server's defaults for a new session are, the sessions of the store behave the same.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type MariadbArgs, MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { createLocks, type Locks } from "../../../src/index.ts";
import { Asking } from "./client.ts";
import { Sections } from "./fixture.ts";

let node: MariadbNode;
let operator: Asking;
const opened: Locks[] = [];

type Default = readonly [name: string, value: string];

const DEFAULTS: readonly Default[] = [
  [
    "sql_mode",
    "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,PIPES_AS_CONCAT,ONLY_FULL_GROUP_BY'",
  ],
  ["autocommit", "0"],
  ["completion_type", "'CHAIN'"],
  ["time_zone", "'+11:00'"],
  ["sql_select_limit", "1"],
];

/** `own`: defaults that only this kind of server has, the worst one first. `options`: of the server. */
export function sessionSettingsCases(own: readonly [Default, ...Default[]], options: MariadbArgs = {}): void {
  beforeAll(async () => {
    node = new MariadbNode(await freePort(), mkdtempSync(join(tmpdir(), "holdfast-mysql-data-")), 1, options);
    await node.start();
    operator = await Asking.open(node.url);
  });

  afterEach(async () => {
    for (const locks of opened.splice(0)) await locks.close();
  });

  afterAll(async () => {
    operator?.close();
    await node?.stop();
  });

  describe.each(["table", "row"])("mode %s", (mode) => {
    const open = (): [Locks, Locks] => {
      const pair = [
        createLocks(`${node.url}?mode=${mode}`),
        createLocks(`${node.url}?mode=${mode}`),
      ] as const;
      opened.push(...pair);
      return [...pair];
    };

    it.each([...DEFAULTS, ...own])(
      "keeps one holder and growing fences under %s = %s (P1, P3)",
      async (name, value) => {
        await under(name, value, async () => {
          const [first, second] = open();
          const lease = await first.acquire("settings", { wait: 60_000 });
          expect(await second.tryAcquire("settings")).toBeNull();
          expect(await lease.verify()).toBe(true);
          await lease.extend();
          expect(await lease.release()).toBe(true);
          const sections = new Sections();
          for (const [at, locks] of [first, second].entries())
            sections.start(locks, at, "settings", { wait: 60_000 });
          await expect
            .poll(() => new Set(sections.all.map(({ who }) => who)).size, { timeout: 60_000 })
            .toBe(2);
          await expect.poll(() => sections.all.length, { timeout: 60_000 }).toBeGreaterThan(20);
          await sections.stop();
          sections.check();
          expect(sections.errors).toEqual([]);
          expect(sections.all.every(({ fence }) => fence > lease.fence)).toBe(true);
        });
      },
    );

    it("locks in a transaction of a session that has the server's defaults (P1, P3)", async () => {
      await under(...own[0], async () => {
        const [first, second] = open();
        const caller = await Asking.open(node.url);
        const fences: bigint[] = [];
        for (let round = 0; round < 2; round += 1) {
          await caller.run("START TRANSACTION");
          fences.push((await first.inTransaction(caller.connection).acquire("tx", { wait: 60_000 })).fence);
          // In table mode the row itself is locked: who wants it hears nothing until the transaction ends.
          expect(await second.tryAcquire("tx").catch(() => null)).toBeNull();
          await caller.run("COMMIT");
          const lease = await second.acquire("tx", { wait: 60_000 });
          fences.push(lease.fence);
          await lease.release();
        }
        caller.close();
        expect(fences).toEqual([...new Set(fences)].sort((a, b) => (a < b ? -1 : 1)));
      });
    });
  });
}

/** Runs `work` while the server gives this default to new sessions. */
async function under(name: string, value: string, work: () => Promise<void>): Promise<void> {
  await operator.run(`SET GLOBAL ${name} = ${value}`);
  try {
    await work();
  } finally {
    await operator.run(`SET GLOBAL ${name} = DEFAULT`);
  }
}
