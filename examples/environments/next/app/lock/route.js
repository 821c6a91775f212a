import { createLocks } from "holdfast";

export const dynamic = "force-dynamic";

const locks = createLocks("memory:");

export async function GET() {
  const lease = await locks.acquire("order:42");
  const other = await locks.tryAcquire("order:42");
  await lease.release();
  // No client of Redis is installed here. The error says which one to install.
  const redis = createLocks("redis://127.0.0.1:1");
  const refused = await redis.acquire("order:42").catch((error) => error);
  await redis.close();
  return Response.json({ exclusive: other === null, refused: refused.message });
}
