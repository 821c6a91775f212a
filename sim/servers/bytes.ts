// Text on its way to a simulated server and back: there it is bytes, one per character.

import type { Reply } from "../../src/stores/redis/client/port.ts";
import type { RedisReply } from "./redis.ts";

/** Most words are the same either way. */
const PLAIN = /^[ -~]*$/;

export function toBytes(text: string): string {
  return PLAIN.test(text) ? text : Buffer.from(text).toString("latin1");
}

export function fromBytes(text: string): string {
  return PLAIN.test(text) ? text : Buffer.from(text, "latin1").toString();
}

export function replyOf(reply: RedisReply): Reply {
  if (typeof reply === "string") return fromBytes(reply);
  return reply === null || typeof reply === "number" ? reply : reply.map(replyOf);
}
