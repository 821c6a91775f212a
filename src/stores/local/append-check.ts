// Everything in this store rests on atomic append: two processes that append at once must both find their
// whole line in the file. Linux guarantees this on its local file systems. The check lets several threads
// append at once, each with a descriptor of its own, and counts the lines. It runs in `doctor`, and once per
// folder on platforms other than Linux. Each thread opens the file itself, because the threads of Deno do not
// share descriptors. It writes only to the file that was just made: another user of the directory may have
// put a link in its place.

import { closeSync, constants, fstatSync, openSync, readFileSync, statSync, unlinkSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { UnsafeStoreError } from "../../core/errors.ts";
import { type Folder, O_NOFOLLOW, O_NONBLOCK } from "./folder.ts";

const PASSED_NAME = "append-is-atomic";
const WRITERS = 3;
/** A file system that appends by "find the end, then write" lost lines in every run of this length. */
const LINES = 4_000;
const LINE_BYTES = 200;
const LONGEST_MS = 250;
/** O_NONBLOCK: a pipe in place of the file must not make the thread wait. */
const FLAGS: number = O_NOFOLLOW | O_NONBLOCK;
const APPEND: number = constants.O_WRONLY | constants.O_APPEND | FLAGS;
/** The count of a thread that found another file in place of the one to append to. */
const REPLACED = -1;

/** Waits for the others, then appends and counts. Plain JavaScript, because it is evaluated in a thread. */
const WRITER = `
const { workerData: { path, ino, index, counts } } = require("node:worker_threads");
const { closeSync, fstatSync, openSync, writeSync } = require("node:fs");
const line = Buffer.from(String.fromCharCode(97 + index).repeat(${LINE_BYTES - 1}) + "\\n");
const count = new Int32Array(counts);
let fd;
try {
  fd = openSync(path, ${APPEND});
} finally {
  // The others must not wait for a thread that failed.
  Atomics.add(count, 0, 1);
}
if (fstatSync(fd, { bigint: true }).ino !== ino) {
  Atomics.store(count, 1 + index, ${REPLACED});
} else {
  while (Atomics.load(count, 0) < ${WRITERS});
  const end = Date.now() + ${LONGEST_MS};
  for (let i = 0; i < ${LINES} && Date.now() < end; i += 1) {
    writeSync(fd, line);
    Atomics.add(count, 1 + index, 1);
  }
}
closeSync(fd);
`;

export interface AppendCheck {
  readonly isAtomic: boolean;
  /** The result for messages. */
  readonly what: string;
}

export async function checkAppend(folder: Folder, self: string): Promise<AppendCheck> {
  const path = folder.join(`draft.0.append-${self}`);
  const made = folder.create(path);
  try {
    const { ino } = fstatSync(made, { bigint: true });
    const counts = new SharedArrayBuffer(4 * (1 + WRITERS));
    const indexes = Array.from({ length: WRITERS }, (_, index) => index);
    await Promise.all(indexes.map((index) => runWriter({ path, ino, index, counts })));
    const [, ...appended] = new Int32Array(counts);
    if (appended.includes(REPLACED)) throw replaced(folder, path);
    const lines = readFile(folder, path, ino).split("\n").slice(0, -1);
    const whole = indexes.map((index) => {
      const line = String.fromCharCode(97 + index).repeat(LINE_BYTES - 1);
      return lines.filter((one) => one === line).length;
    });
    const isAtomic = whole.every((count, index) => count === appended[index]);
    const sum = (of: readonly number[]): number => of.reduce((total, count) => total + count, 0);
    return { isAtomic, what: `${sum(whole)} of ${sum(appended)} lines that were appended at once are whole` };
  } finally {
    closeSync(made);
    unlinkSync(path);
  }
}

function readFile(folder: Folder, path: string, ino: bigint): string {
  const fd = openSync(path, constants.O_RDONLY | FLAGS);
  try {
    if (fstatSync(fd, { bigint: true }).ino !== ino) throw replaced(folder, path);
    return readFileSync(fd, "latin1");
  } finally {
    closeSync(fd);
  }
}

function replaced(folder: Folder, path: string): UnsafeStoreError {
  return new UnsafeStoreError(`another user replaced ${path} while it was in use`, {
    setting: folder.path,
    fix: "share the directory with users that you trust only",
  });
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
