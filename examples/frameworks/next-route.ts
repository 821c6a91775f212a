// A route handler of Next.js: `app/orders/[order]/payment/route.ts` exports it as `POST`. In development
// Next.js loads modules again after each change, so the locks are kept on `globalThis`.

import { createLocks, LockError, type Locks } from "holdfast";

const kept = globalThis as { paymentLocks?: Locks };

function paymentLocks(): Locks {
  kept.paymentLocks ??= createLocks(process.env["REDIS_URL"] ?? "");
  return kept.paymentLocks;
}

interface RouteContext {
  readonly params: Promise<{ readonly order: string }>;
}

export async function POST(request: Request, { params }: RouteContext): Promise<Response> {
  const { order } = await params;
  try {
    const options = { wait: "5s", signal: request.signal } as const;
    return await paymentLocks().using(`order:${order}`, options, (lease) =>
      Response.json({ order, fence: String(lease.fence) }),
    );
  } catch (error) {
    if (!LockError.is(error)) throw error;
    return new Response(error.message, { status: error.code === "ERR_LOCK_TIMEOUT" ? 409 : 503 });
  }
}
