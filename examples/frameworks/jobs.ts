// The processor of a queue such as BullMQ: `new Worker("payments", paymentProcessor(locks, pay), {
// connection })`. A queue runs a job again if its worker stalls, so two workers may have one job. The
// lock keeps them apart, and one order is in one job at a time, whatever the queues are.

import { type Locks, LockTimeoutError } from "holdfast";

/** What is used of a job. */
export interface PaymentJob {
  readonly data: { readonly order: string };
}

export function paymentProcessor(
  locks: Locks,
  pay: (order: string, fence: bigint, signal: AbortSignal) => Promise<string>,
): (job: PaymentJob) => Promise<string> {
  return async ({ data: { order } }) => {
    try {
      // Shorter than the lock of the queue: BullMQ renews `lockDuration` while the processor waits, too.
      return await locks.using(`order:${order}`, { wait: "10s" }, (lease) =>
        pay(order, lease.fence, lease.signal),
      );
    } catch (error) {
      // The job fails, and the queue repeats it as its `attempts` and `backoff` say.
      if (LockTimeoutError.is(error)) throw new Error(`order ${order} is busy`, { cause: error });
      throw error;
    }
  };
}
