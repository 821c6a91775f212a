// One process that waits for a key of five masters. It is ready when it has opened its store, and ends when
// it has had the key once. Plain JavaScript, because a hundred of them are started.

import { createLocks } from "holdfast";

const { url, key } = JSON.parse(process.argv[2] ?? "{}");
const locks = createLocks(url, { deadlock: false });
await (await locks.acquire(`${key}-warm-${process.pid}`, { wait: "1m" })).release();
process.stdout.write("ready\n");
await new Promise((resolve) => {
  process.stdin.once("data", resolve).resume();
});
await (await locks.acquire(key, { wait: Number.POSITIVE_INFINITY })).release();
process.stdout.write("{}", () => process.exit(0));
