import { createLocks } from "holdfast";

export const dynamic = "force-dynamic";

const locks = createLocks("memory:");

export async function GET() {
  const lease = await locks.acquire("order:42");
  const other = await locks.tryAcquire("order:42");
  await lease.release();
  // No client of PostgreSQL is installed here. The error says which one to install.
  const postgres = createLocks("postgres://127.0.0.1:1/db");
  const refused = await postgres.acquire("order:42").catch((error) => error);
  await postgres.close();
  return Response.json({ exclusive: other === null, refused: refused.message });
}
