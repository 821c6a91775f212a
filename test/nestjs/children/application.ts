// One process of the example application. Its bank writes what happens into a list of Redis, and answers when
// the test says so.

import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";
import { type Bank, Payments, startApplication } from "../../../examples/nestjs/application.ts";

const POLL_MS = 10;
const [url = "", label = ""] = process.argv.slice(2);
const client = createClient({ url });
await client.connect();

const bank: Bank = {
  async charge(order, signal) {
    await client.rPush("journal", `${label} begins ${order}`);
    while ((await client.exists(`approved:${order}`)) === 0) {
      signal.throwIfAborted();
      await sleep(POLL_MS);
    }
    await client.rPush("journal", `${label} ends ${order}`);
    return `paid by ${label}`;
  },
  async closeTheDay() {
    await client.rPush("journal", `${label} closes the day`);
  },
};

const app = await startApplication(url, label, bank);
await app.get(Payments).closeTheDay();
process.stdout.write(`${await app.getUrl()}\n`);
