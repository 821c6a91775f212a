// A message from one process to another through Redis, which is the least that a hand-off costs: how long a
// PUBLISH takes to arrive.

import { Redis } from "ioredis";
import { monoMs, report, settings, startingShot } from "../lib/worker.ts";

const CHANNEL = "bench:publish";
const EVERY_MS = 3;

interface Settings {
  readonly url: string;
  readonly seconds: number;
  readonly role: "send" | "receive";
}

const { url, seconds, role } = settings<Settings>();
const client = new Redis(url);
const ms: number[] = [];
if (role === "receive") {
  await client.subscribe(CHANNEL);
  client.on("message", (_channel, sentMs: string) => ms.push(monoMs() - Number(sentMs)));
}
await startingShot();
const endMs = monoMs() + seconds * 1_000;
while (monoMs() < endMs) {
  await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  if (role === "send") await client.publish(CHANNEL, String(monoMs()));
}
client.disconnect();
report({ ms });
