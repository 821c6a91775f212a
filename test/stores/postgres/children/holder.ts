// Takes a key, says with which fence, and keeps it until it is ended from outside.

import { createLocks } from "../../../../src/index.ts";

const [url, key, ttl] = process.argv.slice(2) as [string, string, string];
const locks = createLocks(url);
const lease = await locks.acquire(key, { ttl: Number(ttl) });
process.send?.(String(lease.fence));
setInterval(() => {}, 1_000);
lease.signal.addEventListener("abort", () => process.send?.("lost"));
