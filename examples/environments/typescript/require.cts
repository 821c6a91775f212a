import holdfast = require("holdfast");
import stores = require("holdfast/memory");

async function main(): Promise<void> {
  const locks = holdfast.createLocks(stores.memory());
  const lease: holdfast.Lease = await locks.acquire("order:42", { ttl: "5s" });
  const other = await locks.tryAcquire("order:42");
  if (!lease.held || other !== null) throw new Error("no exclusion");
  await lease.release();
  await locks.close();
  console.log("holdfast works");
}

void main();
