// Everything in this store rests on atomic append: two processes that append at once must both find their
// whole line in the file. Linux guarantees this on its local file systems. The check lets several threads
// append at once, each with a descriptor of its own, and counts the lines. It runs in `doctor`, and once per
// folder on platforms other than Linux.

import { closeSync, readFileSync, statSync, unlinkSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { UnsafeStoreError } from "../../core/errors.ts";
import type { Folder } from "./folder.ts";

const PASSED_NAME = "append-is-atomic";
const WRITERS = 3;
const LINES = 400;
const LINE_BYTES = 200;

/** Waits for the others, then appends. Plain JavaScript, because it is evaluated in a thread. */
const WRITER = `
const { workerData: { path, letter, gate, writers } } = require("node:worker_threads");
const { closeSync, openSync, writeSync } = require("node:fs");
const line = Buffer.from(letter.repeat(${LINE_BYTES - 1}) + "\\n");
const fd = openSync(path, "a");
const ready = new Int32Array(gate);
Atomics.add(ready, 0, 1);
while (Atomics.load(ready, 0) < writers);
for (let i = 0; i < ${LINES}; i += 1) writeSync(fd, line);
closeSync(fd);
`;

export interface AppendCheck {
  readonly isAtomic: boolean;
  /** For people: what was found. */
  readonly what: string;
}

export async function checkAppend(folder: Folder, self: string): Promise<AppendCheck> {
  const path = folder.join(`draft.0.append-${self}`);
  closeSync(folder.create(path));
  try {
    const gate = new SharedArrayBuffer(4);
    const letters = Array.from({ length: WRITERS }, (_, i) => String.fromCharCode(97 + i));
    await Promise.all(letters.map((letter) => runWriter({ path, letter, gate, writers: WRITERS })));
    const lines = readFileSync(path, "latin1").split("\n").slice(0, -1);
    const whole = letters.map(
      (letter) => lines.filter((line) => line === letter.repeat(LINE_BYTES - 1)).length,
    );
    const isAtomic = lines.length === WRITERS * LINES && whole.every((count) => count === LINES);
    const found = whole.reduce((sum, count) => sum + count, 0);
    return { isAtomic, what: `${found} of ${WRITERS * LINES} lines that were appended at once are whole` };
  } finally {
    unlinkSync(path);
  }
}

/**
 * Rejects a file system without atomic append (P19). Linux has it; elsewhere it is checked once per folder.
 */
export async function requireAtomicAppend(
  folder: Folder,
  self: string,
  platform: NodeJS.Platform = process.platform,
): Promise<void> {
  if (platform === "linux") return;
  const passed = folder.join(PASSED_NAME);
  if (statSync(passed, { throwIfNoEntry: false }) !== undefined) return;
  const { isAtomic, what } = await checkAppend(folder, self);
  if (!isAtomic) throw notAtomic(folder.path, what);
  try {
    closeSync(folder.create(passed));
  } catch {
    // Another process noted it first.
  }
}

function notAtomic(path: string, what: string): UnsafeStoreError {
  return new UnsafeStoreError(
    `the local store rejects ${path}: its file system does not append atomically (${what})`,
    { setting: path, fix: "name a directory on another local file system, or use a store with a server" },
  );
}

function runWriter(workerData: object): Promise<void> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(WRITER, { eval: true, workerData });
    worker.once("error", reject);
    worker.once("exit", () => resolve());
  });
}
