// A program that does nothing but lock, as a script of a user does: nothing else keeps its event loop alive.

import { createLocks } from "../../../../src/index.ts";
import { redis } from "../../../../src/stores/redis/index.ts";

const [, , url, driver, end] = process.argv as [string, string, string, "redis" | "ioredis", string];
const locks = createLocks(redis({ url, driver }));
const said: string[] = [];
said.push(await locks.using("job", () => Promise.resolve("used")));
const lease = await locks.tryAcquire("job");
said.push(lease === null ? "busy" : "tried");
said.push(`${(await locks.inspect("job"))?.holders.length} holder`);
for await (const info of locks.list()) said.push(`listed ${info.key}`);
said.push(`verified ${await lease?.verify()}`);
said.push(`released ${await lease?.release()}`);
said.push(`${(await locks.check()).filter(({ level }) => level === "danger").length} dangers`);
if (end === "close") await locks.close();
if (end === "forget") await locks.acquire("forgotten", { ttl: "10m" });
console.log(said.join(", "));
