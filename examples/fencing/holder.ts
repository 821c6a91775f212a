// The unlucky holder, a process of its own: takes the lock, looks at the counter, and is stopped before it writes. It has done
// nothing wrong: when it looked, the lease was held.

import { setTimeout as sleep } from "node:timers/promises";
import { createLocks } from "holdfast";
import { openResource } from "./resources.ts";

const [store = "", url = "", name = "", guarded = ""] = process.argv.slice(2);
const locks = createLocks(store);
const resource = await openResource(url, name);

const lease = await locks.acquire(name, { ttl: "1s", label: "the sleeper" });
const guard = guarded === "guarded" ? lease : null;
const value = await resource.read(guard);
lease.assertHeld();
process.stdout.write("looked\n");
await sleep(200); // It is stopped here, and goes on long after its lease has ended.
try {
  await resource.write(value + 1, guard);
  process.stdout.write("wrote\n");
} catch (error) {
  process.stdout.write(`refused: ${(error as Error).message}\n`);
}
await resource.close();
await locks.close();
