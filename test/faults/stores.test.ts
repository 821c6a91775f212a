// A short pass of the faults that matter most over every store, and of one more that the seed chooses. The long ones are the
// runs behind docs/evidence.md. Clocks are not among them: those faults need a C compiler, which a machine with Node alone lacks.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { faultsOf } from "../../faults/plugins/index.ts";
import { run } from "../../faults/run.ts";
import { DEFAULTS } from "../../faults/settings.ts";
import { targetNamed, targetNames } from "../../faults/targets/index.ts";
import { Random } from "../../sim/world/random.ts";

const ALWAYS = ["kill", "pause", "server-freeze", "swallowed-replies"];
const NEED_A_COMPILER = ["client-wall-clock", "server-clock"];
/** The others take their time, and their pass is made by command: HOLDFAST_MORE=1. */
const QUICK = ["local", "redis"];
const chosenStores: readonly string[] = process.env["HOLDFAST_MORE"] ? targetNames : QUICK;
const ALSO = 1;
const SEED = Number(process.env["HOLDFAST_SEED"] ?? 11);
/** A tenth of what a quiet machine reaches. */
const LEAST_GRANTS = 15;

async function possible(store: string): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-faults-"));
  const target = await targetNamed(store)(folder, "none");
  await target.stop();
  rmSync(folder, { recursive: true, force: true });
  return faultsOf(target).filter((fault) => fault !== "none" && !NEED_A_COMPILER.includes(fault));
}

function chosen(store: string, faults: readonly string[]): string[] {
  const random = new Random(SEED).fork(store);
  const others = faults.filter((fault) => !ALWAYS.includes(fault));
  const also = Array.from({ length: Math.min(ALSO, others.length) }, () => random.pick(others));
  return [...faults.filter((fault) => ALWAYS.includes(fault)), ...new Set(also)];
}

for (const store of chosenStores) {
  const faults = chosen(store, await possible(store));
  describe.concurrent(`clients of ${store}, seed ${SEED}`, () => {
    for (const fault of faults) {
      it(`keep every promise under ${fault} (P1 to P17)`, { timeout: 90_000 }, async () => {
        const outcome = await run({
          ...DEFAULTS,
          store,
          fault,
          seconds: 4,
          seed: SEED,
          clients: 3,
          cheats: [],
        });
        expect(outcome.violations, `histories in ${outcome.kept}`).toEqual([]);
        expect(outcome.figures.grants).toBeGreaterThanOrEqual(LEAST_GRANTS);
        expect(outcome.figures.strikes).toBeGreaterThan(0);
      });
    }
  });
}

describe("a fault that cannot strike", () => {
  it("is refused: no server of its own", async () => {
    const settings = { ...DEFAULTS, fault: "server-kill", seconds: 1, seed: 1, cheats: [] };
    await expect(run(settings)).rejects.toThrow(/no server of its own/);
  });

  it("is refused: no way through a proxy", async () => {
    const settings = { ...DEFAULTS, fault: "cut", seconds: 1, seed: 1, cheats: [] };
    await expect(run(settings)).rejects.toThrow(/through a proxy/);
  });

  it("is refused: not known, with those that are", async () => {
    const settings = { ...DEFAULTS, fault: "script-flush", seconds: 1, seed: 1, cheats: [] };
    await expect(run(settings)).rejects.toThrow(/no fault script-flush of this store: there are none, kill/);
  });
});

describe("a store that forgets", () => {
  it("is fenced, not safe, and the overlaps are counted (P3, P4)", { timeout: 90_000 }, async () => {
    const settings = { ...DEFAULTS, store: "redis", fault: "server-wipe", seconds: 6, seed: 3, cheats: [] };
    const { violations, figures, kept } = await run(settings);
    expect(violations, `histories in ${kept}`).toEqual([]);
    expect(figures.expected).toBe("fenced");
    expect(figures.fenceErrors).toBe(0);
    expect(figures.strikes).toBeGreaterThan(0);
  });
});
