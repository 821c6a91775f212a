// The file of a record: what a kill, a cut, damage or another version leaves of it.

import { closeSync, openSync, readFileSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadKernelLock } from "../../../src/stores/local/kernel-lock.ts";
import { createSlotFile, SlotFile } from "../../../src/stores/local/slot-file.ts";
import { PAGE_BYTES } from "../../../src/stores/local/slots.ts";
import { freshDir } from "./fixture.ts";

const kernel = loadKernelLock();
const owner = { fileMode: 0o600, adopt: () => {} };
let dir: ReturnType<typeof freshDir>;
let path: string;
beforeEach(() => {
  dir = freshDir();
  path = join(dir.path, "file");
});
afterEach(() => dir.remove());

function make(text: string): SlotFile {
  return new SlotFile(path, createSlotFile(path, text, owner), kernel);
}

/** What a process that has never seen the file reads. */
function readAfresh(): string {
  const fd = openSync(path, "r+");
  try {
    return new SlotFile(path, fd, kernel).read();
  } finally {
    closeSync(fd);
  }
}

/** Puts the bytes of a write into the file one after the other, as a kill could cut it: a text outside of the page comes first. */
function* cuts(before: Buffer, after: Buffer): Generator<string> {
  writeFileSync(path, before);
  const fd = openSync(path, "r+");
  try {
    const order = [...span(PAGE_BYTES, after.length), ...span(0, PAGE_BYTES)];
    for (const at of order.filter((one) => before[one] !== after[one])) {
      writeSync(fd, after, at, 1, at);
      yield new SlotFile(path, fd, kernel).read();
    }
  } finally {
    closeSync(fd);
  }
}

function span(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
}

function expectOldOrNew(file: SlotFile, oldText: string, newText: string): void {
  expect(file.read()).toBe(oldText);
  const before = readFileSync(path);
  file.write(newText);
  const texts = [...cuts(before, readFileSync(path))];
  // The new text counts only once its last byte is there.
  expect(texts.pop()).toBe(newText);
  expect(new Set(texts)).toEqual(new Set([oldText]));
  expect(readAfresh()).toBe(newText);
}

describe("a slot file", () => {
  it("cut at any byte of a write holds the old text or the new one (P8)", () => {
    const file = make("first");
    expectOldOrNew(file, "first", "the second, in the slot that was never used");
    expectOldOrNew(
      file,
      "the second, in the slot that was never used",
      "third, shorter than what it overwrites",
    );
    expectOldOrNew(file, "third, shorter than what it overwrites", `fourth ${"x".repeat(1_900)}`);
    file.close();
  });

  it("cut at any byte of a text too large for its slot holds the old text or the new one (P8)", () => {
    const file = make("small");
    const texts = [9_000, 20_000, 3_000, 30_000, 100, 8_000].map((n) => `${n}:${"ä".repeat(n / 2)}`);
    let now = "small";
    for (const text of texts) {
      expectOldOrNew(file, now, text);
      now = text;
    }
    file.close();
  });

  it("does not grow without end when large texts follow each other (P16)", () => {
    const file = make("x".repeat(50_000));
    for (let i = 0; i < 50; i += 1) {
      file.read();
      file.write(String(i).padEnd(40_000 + i * 200, "y"));
    }
    expect(readAfresh()).toBe("49".padEnd(49_800, "y"));
    expect(readFileSync(path).length).toBeLessThan(4 * 50_000);
    file.close();
  });

  it("damaged in both slots is refused with its name and a remedy, never read as free (P19)", () => {
    const file = make("first");
    file.read();
    file.write("second");
    file.close();
    const bytes = readFileSync(path);
    bytes[33] = (bytes[33] as number) ^ 1;
    bytes[2_048 + 33] = (bytes[2_048 + 33] as number) ^ 1;
    writeFileSync(path, bytes);
    expect(readAfresh).toThrow(expect.objectContaining({ code: "ERR_STORE_UNSAFE", setting: path }));
    expect(readAfresh).toThrow(/damaged/);
  });

  it("emptied, shortened or zeroed is refused (P19)", () => {
    make("first").close();
    writeFileSync(path, Buffer.alloc(PAGE_BYTES));
    expect(readAfresh).toThrow(/damaged/);
    truncateSync(path, 100);
    expect(readAfresh).toThrow(/damaged/);
    truncateSync(path, 0);
    expect(readAfresh).toThrow(/damaged/);
  });

  it("of another format is refused by both numbers (P19)", () => {
    make("first").close();
    const bytes = readFileSync(path);
    bytes.writeUInt32LE(7, 4);
    writeFileSync(path, bytes);
    expect(readAfresh).toThrow(/format 7.*format 1/);
    expect(readAfresh).toThrow(expect.objectContaining({ code: "ERR_STORE_UNSAFE" }));
  });

  it("is latched by one opening at a time, and the latch goes with the opening", () => {
    const file = make("first");
    const other = new SlotFile(path, openSync(path, "r+"), kernel);
    expect(file.tryLatch()).toBe(true);
    expect(other.tryLatch()).toBe(false);
    file.close();
    expect(other.tryLatch()).toBe(true);
    other.close();
  });
});
