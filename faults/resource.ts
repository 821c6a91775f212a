// The program that owns what the locks protect: a register per key, once behind a guard and once without. It keeps its own
// log of every touch, so that what a client believes is never the only witness. It must never trust a client's clock.

import { createServer } from "node:net";
import { Journal, nowMs } from "./journal.ts";
import { onLine } from "./lines.ts";
import type { ResourceSetup, TouchCall, TouchReply } from "./settings.ts";

const setup = JSON.parse(process.argv[2] ?? "") as ResourceSetup;
const journal = new Journal(setup.folder, "resource");
const values = new Map<string, number>();
const largest = new Map<string, bigint>();

/** Guarded: a fence below the largest seen is refused, and every accepted one is remembered, reads included (P4). */
function touch({ client, key, fence, guarded, write }: TouchCall): number | null {
  const name = `${guarded}:${key}`;
  const before = values.get(name) ?? 0;
  const seen = largest.get(key) ?? 0n;
  const accepted = !guarded || setup.open || BigInt(fence) >= seen;
  if (accepted && guarded && BigInt(fence) > seen) largest.set(key, BigInt(fence));
  if (accepted && write !== null) values.set(name, write);
  const after = values.get(name) ?? 0;
  journal.write({
    type: "touched",
    at: nowMs(),
    client,
    key,
    fence,
    guarded,
    accepted,
    write: write !== null,
    before,
    after,
  });
  return accepted ? before : null;
}

const server = createServer((socket) => {
  onLine(socket, (line) => {
    const call = JSON.parse(line) as TouchCall;
    const reply: TouchReply = { n: call.n, before: touch(call) };
    socket.write(`${JSON.stringify(reply)}\n`);
  });
});
server.listen(setup.socket, () => process.send?.({ say: "ready" }));
process.on("disconnect", () => process.exit(0));
