import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocks } from "holdfast";

const dir = mkdtempSync(join(tmpdir(), "locks-"));
for (const url of ["memory:", `local:${dir}`]) {
  const locks = createLocks(url);
  const lease = await locks.acquire("order:42", { ttl: "5s" });
  const other = await locks.tryAcquire("order:42");
  if (!lease.held || other !== null) throw new Error(`no exclusion on ${url}`);
  await lease.release();
  await locks.close();
}
rmSync(dir, { recursive: true });
console.log("holdfast works");
