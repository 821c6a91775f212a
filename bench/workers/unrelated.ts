// One process of many tasks that hold keys and wait for others, always upwards, so that no circle can be.

import { createLocks, LockError } from "../../src/index.ts";
import { monoMs, report, settings, startingShot } from "../lib/worker.ts";

const { url, seconds, tasks, keys } = settings<{
  url: string;
  seconds: number;
  tasks: number;
  keys: number;
}>();
const locks = createLocks(url, { namespace: "unrelated", wait: 60_000, ttl: 10_000 });
const found = { sections: 0, longWaits: 0, alarms: 0, timeouts: 0, others: [] as string[] };
locks.on("deadlock", () => (found.alarms += 1));

async function nested(wanted: readonly number[]): Promise<void> {
  const [first, ...rest] = wanted;
  if (first === undefined) {
    found.sections += 1;
    await new Promise((resolve) => setTimeout(resolve, Math.random() ** 3 * 900));
    return;
  }
  const askedMs = monoMs();
  await locks.using(`key-${String(first).padStart(3, "0")}`, async () => {
    // Long enough to have been looked at as a suspect.
    if (monoMs() - askedMs > 600) found.longWaits += 1;
    await nested(rest);
  });
}

// Loading a client takes long on a busy machine.
for (let open = false; !open;) {
  open = await locks.inspect("key").then(
    () => true,
    () => false,
  );
}
await startingShot();
const endMs = monoMs() + seconds * 1_000;
await Promise.all(
  Array.from({ length: tasks }, async () => {
    while (monoMs() < endMs) {
      const wanted = new Set(Array.from({ length: 3 }, () => Math.floor(Math.random() * keys)));
      await nested([...wanted].sort((a, b) => a - b)).catch((error: unknown) => {
        if (!LockError.is(error)) throw error;
        if (error.code === "ERR_LOCK_DEADLOCK") found.alarms += 1;
        else if (error.code === "ERR_LOCK_TIMEOUT") found.timeouts += 1;
        else found.others.push(error.message);
      });
    }
  }),
);
await locks.close();
report(found);
