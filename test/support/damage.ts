// Contents that nobody of ours has written: bytes of every kind, real records with something broken off, changed or added, and
// real JSON with one value replaced. And what is asked of a store that meets them (P17, P19): whatever is called settles soon, with an answer
// or with an error that is typed, names the key and says what to do; other keys work on.

import fc from "fast-check";
import { LockError, type Locks, UnsafeStoreError } from "../../src/index.ts";

const SETTLES_MS = 100_000;
/** Long enough for a call to have two seconds on a busy machine. */
const TTL_MS = 6_000;

/** Bytes of any kind, or `real` with some damage. */
export function damagedBytes(real: () => Buffer): fc.Arbitrary<Buffer> {
  const place = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
  const some = fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes));
  const at = (share: number): number => Math.floor(share * (real().length + 1));
  return fc.oneof(
    fc.uint8Array({ maxLength: 6_000 }).map((bytes) => Buffer.from(bytes)),
    place.map((share) => Buffer.from(real().subarray(0, at(share)))),
    fc.tuple(place, some).map(([share, more]) => {
      const [bytes, cut] = [real(), at(share)];
      return Buffer.concat([bytes.subarray(0, cut), more, bytes.subarray(cut)]);
    }),
    fc.tuple(place, some).map(([share, over]) => {
      const bytes = Buffer.from(real());
      over.copy(bytes, at(share));
      return bytes;
    }),
  );
}

const odd: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(null, true, -1, 0, 1.5, 1e308, "", "x", [], {}, [null], { a: 1 }, "9".repeat(400)),
  fc.jsonValue({ maxDepth: 2 }),
);

/** Texts that are no JSON, JSON of another shape, or `real` with one value replaced. */
export function damagedJson(real: () => string): fc.Arbitrary<string> {
  const replaced = fc.tuple(fc.nat(1_000), odd).map(([which, value]) => {
    const whole = JSON.parse(real()) as unknown;
    const places = placesIn(whole);
    if (places.length === 0) return JSON.stringify(value);
    const [holder, name] = places[which % places.length] as [Record<string, unknown>, string];
    holder[name] = value;
    return JSON.stringify(whole);
  });
  return fc.oneof(
    fc.string({ unit: "grapheme-ascii" }),
    odd.map((value) => JSON.stringify(value)),
    replaced,
  );
}

function placesIn(value: unknown): [Record<string, unknown>, string][] {
  if (typeof value !== "object" || value === null) return [];
  const own = value as Record<string, unknown>;
  return Object.keys(own).flatMap(
    (name) => [[own, name], ...placesIn(own[name])] as [Record<string, unknown>, string][],
  );
}

/** What is wrong with how these locks bear a damaged key; empty when nothing is. */
export async function complaints(locks: Locks, key: string, fine: string): Promise<string[]> {
  const found: string[] = [];
  const calls: [string, () => Promise<unknown>][] = [
    ["tryAcquire", async () => (await locks.tryAcquire(key, { ttl: TTL_MS }))?.release()],
    ["inspect", () => locks.inspect(key)],
    ["revoke", () => locks.revoke(key, { reason: "test", force: true })],
    ["acquire", async () => (await locks.acquire(key, { wait: 100, ttl: TTL_MS })).release()],
    ["list", () => all(locks)],
  ];
  for (const [name, call] of calls) {
    const complaint = complaintAbout(await settled(call), key, name);
    if (complaint !== null) found.push(`${name}: ${complaint}`);
  }
  const other = await settled(() => locks.using(fine, (lease) => lease.held));
  if (other !== true) found.push(`another key: ${String(other)}`);
  return found;
}

async function all(locks: Locks): Promise<void> {
  for await (const _one of locks.list()) continue;
}

const HANGS = Symbol("hangs");

async function settled(call: () => Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, SETTLES_MS, HANGS)));
  try {
    return await Promise.race([call().catch((error: unknown) => error), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A timeout is no complaint: what was planted may be the record of somebody who holds. */
function complaintAbout(outcome: unknown, key: string, name: string): string | null {
  if (outcome === HANGS) return `not settled within ${SETTLES_MS} ms`;
  if (!(outcome instanceof Error)) return null;
  if (!LockError.is(outcome)) return `a bare ${outcome.name}: ${outcome.message}`;
  if (["ERR_LOCK_TIMEOUT", "ERR_LOCK_ARGUMENT", "ERR_LOCK_UNSUPPORTED"].includes(outcome.code)) return null;
  // A machine under load, which is not what is asked about here.
  if (outcome.message.includes("did not answer")) return null;
  // A release that meets the damage cannot be confirmed. Its cause says why.
  if (outcome.cause instanceof UnsafeStoreError) return complaintAbout(outcome.cause, key, name);
  if (!(outcome instanceof UnsafeStoreError)) return `${outcome.code} ${outcome.message}`;
  if (outcome.fix === "") return "it does not say what to do";
  if (name !== "list" && outcome.key !== key) return `it does not name the key: ${outcome.message}`;
  return null;
}

/** The id of a request, as the stores write it. */
export const ID: string = "ab".repeat(16);
/** One part of a name below the names of a store. */
export const namePart: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.constantFrom("", "1", "0", "-1", "w", "r", "kw", "x", "%", "%zz", "%2F", ID, "9".repeat(30)),
);
