import { createLocks, type Lease, LockError } from "holdfast";
import { memory } from "holdfast/memory";

async function main(): Promise<void> {
  const locks = createLocks(memory());
  const lease: Lease = await locks.acquire("order:42", { ttl: "5s" });
  const other = await locks.tryAcquire("order:42");
  if (!lease.held || other !== null) throw new Error("no exclusion");
  await lease.release();
  await locks.close();

  // No client of PostgreSQL is installed here. The error says which one to install.
  const postgres = createLocks("postgres://127.0.0.1:1/db");
  const refused: unknown = await postgres.acquire("order:42").catch((error: unknown) => error);
  if (!LockError.is(refused) || !refused.message.includes("npm i pg")) throw refused;
  await postgres.close();
  console.log("holdfast works");
}

void main();
