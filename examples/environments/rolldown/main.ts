import { createLocks, type Lease, LockError } from "holdfast";
import { memory } from "holdfast/memory";

async function main(): Promise<void> {
  const locks = createLocks(memory());
  const lease: Lease = await locks.acquire("order:42", { ttl: "5s" });
  const other = await locks.tryAcquire("order:42");
  if (!lease.held || other !== null) throw new Error("no exclusion");
  await lease.release();
  await locks.close();

  // No client of Redis is installed here. The error says which one to install.
  const redis = createLocks("redis://127.0.0.1:1");
  const refused: unknown = await redis.acquire("order:42").catch((error: unknown) => error);
  if (!LockError.is(refused) || !refused.message.includes("npm i redis")) throw refused;
  await redis.close();
  console.log("holdfast works");
}

void main();
