// An API that allows so many requests at once, for all processes together. A semaphore of as many permits keeps to it; who is late waits in line.

import type { Locks } from "holdfast";

export const ALLOWED = 3;

export async function call(locks: Locks, url: string): Promise<number> {
  return locks.using("weather-api", { limit: ALLOWED, wait: "30s", ttl: "10s" }, async (lease) => {
    const response = await fetch(url, { signal: lease.signal });
    await response.arrayBuffer();
    return response.status;
  });
}
