// Waits for a key that somebody else has, and closes when it is told to. Nothing else keeps it alive.

import { createLocks } from "../../../../src/index.ts";

const [url, key] = process.argv.slice(2) as [string, string];
const locks = createLocks(url);
const waiting = locks.acquire(key, { wait: "60s" }).catch(() => {});
process.once("message", () => {
  void locks.close().then(() => waiting);
  process.disconnect();
});
await locks.inspect(key);
process.send?.("ready");
