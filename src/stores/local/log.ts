// An append-only log of record changes that all processes of a folder share. It decides which of two
// concurrent steps was first.
//
// A step, for one or several keys:
// 1. Decide over the records that are known so far. Append one line that names the new records and the
//    version of each record that the decision was made from. A version is the offset of the line that
//    wrote the record.
// 2. Read what was appended since the last read, including the own line.
// 3. The line counts if every version in it is the newest one at the line's position in the log. All
//    processes compute the same verdict from the same bytes, without a clock. If the line does not count,
//    start again with the new records. The kernel orders the appends (O_APPEND). A step holds no lock, so
//    a process that is stopped or killed in a step blocks no other.
//
// How a log is replaced (log.<n> by log.<n+1>):
// 1. A process that finds the log too long appends a `seal`. Lines after the seal are void.
// 2. Each process that reads the seal writes the live records to a draft, checks that log.<n> still exists,
//    and links the draft as log.<n+1>. EEXIST means that another process was faster.
// 3. The process whose link succeeded removes old logs, the oldest first, each after the drafts up to its
//    number. A draft of a stopped process is therefore gone before its number could be linked a second
//    time.

import {
  closeSync,
  constants,
  fstatSync,
  linkSync,
  readdirSync,
  readSync,
  type Stats,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { damaged, errno, otherVersion } from "./errors.ts";
import type { Folder } from "./folder.ts";
import {
  type Entry,
  headLine,
  keptLine,
  type Line,
  LOG_FORMAT,
  parseLine,
  sealLine,
  stepLine,
} from "./log-format.ts";
import { makeSpare, withSpare } from "./spare-file.ts";

const LF = 10;
const FIRST_CHUNK_BYTES = 1 << 16;
const LONGEST_CHUNK_BYTES = 1 << 22;
/** A log of this length is replaced, or one of four times its first records if that is more. */
const LONGEST_LOG_BYTES = 1 << 20;
const GROWTH = 4;
/** After this many listings without a log, it was deleted, and is not just being replaced. */
const LISTINGS = 100;

export interface LogOptions {
  readonly folder: Folder;
  /** Names this opened store in its lines and drafts. */
  readonly self: string;
  readonly isReadOnly: boolean;
  /** Null if the record is still in use at this time, else the largest fence that it may have granted. */
  lastFenceIfOver(text: string, timeMs: number): number | null;
  /** Replaces a longer log. Tests choose a small one. */
  readonly longestBytes?: number | undefined;
}

/** The folder has no log, because it was deleted. */
export class MissingLogError extends Error {}

let chunk = Buffer.allocUnsafe(FIRST_CHUNK_BYTES);

export class Log {
  readonly #options: LogOptions;
  #fd = -1;
  #stats: Stats | null = null;
  #number = -1;
  /** The log is known up to this offset. */
  #readTo = 0;
  #limit = 0;
  #entries = new Map<string, Entry>();
  #floor = 0;
  #sealedAtMs: number | null = null;
  #appended = 0;
  /** The id of the own line, and its verdict once the line was read. */
  #ownId = "";
  #ownVerdict: boolean | null = null;

  constructor(options: LogOptions) {
    this.#options = options;
    this.#openNewest();
    if (!options.isReadOnly) makeSpare(options.folder);
  }

  /** Text of an empty log, for a folder that is being made. */
  static emptyText(namespace: string): Buffer {
    return Buffer.from(headLine(0, namespace));
  }

  get number(): number {
    return this.#number;
  }

  /** New fences are larger than this, for every key. */
  get floor(): number {
    return this.#floor;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(jsonKey: string): Entry | undefined {
    return this.#entries.get(jsonKey);
  }

  entries(): IterableIterator<[string, Entry]> {
    return this.#entries.entries();
  }

  /**
   * Makes all of the changes or none, and keeps them as the entries of their keys. False if another process
   * changed one of the keys first. `mayUseSpare`: on a full disk, delete the spare file to write this line.
   */
  append(changes: readonly Entry[], timeMs: number, mayUseSpare: boolean): boolean {
    this.#appended += 1;
    const id = `${this.#options.self}.${this.#appended.toString(36)}`;
    const line = stepLine(id, changes);
    withSpare(this.#options.folder, mayUseSpare, () => writeWhole(this.#fd, line));
    const got = readSync(this.#fd, chunk, 0, chunk.length, this.#readTo);
    const before = got - line.length;
    // Usually the own line is the last one and needs no parsing.
    const ownIsLast =
      before >= 0 &&
      (before === 0 || chunk[before - 1] === LF) &&
      chunk.compare(line, 0, line.length, before, got) === 0;
    const verdict = ownIsLast ? this.#takeOwnLast(changes, before, line.length) : this.#findOwn(id, got);
    if (this.#sealedAtMs !== null) this.refresh();
    else if (this.#readTo > this.#limit) this.#seal(timeMs);
    return verdict;
  }

  /** Reads what other processes have appended. */
  refresh(): void {
    this.#drain();
    while (this.#sealedAtMs !== null && this.#followSeal());
  }

  /** Whether the log in use is the one that other processes find in the folder. */
  isLinked(): boolean {
    for (;;) {
      const there = statSync(this.#path(this.#number), { throwIfNoEntry: false });
      if (there?.ino === this.#stats?.ino && there?.dev === this.#stats?.dev) return true;
      const before = this.#number;
      this.refresh();
      if (this.#number === before) return false;
    }
  }

  close(): void {
    if (this.#fd !== -1) closeSync(this.#fd);
    this.#fd = -1;
  }

  /** The own line is at the end of the chunk, after `before` bytes of other lines. */
  #takeOwnLast(changes: readonly Entry[], before: number, length: number): boolean {
    if (before > 0) this.#take(before);
    if (this.#sealedAtMs !== null) return false;
    // The version of a line is the offset behind its first LF.
    const version = this.#readTo + 1;
    this.#readTo += length;
    return this.#apply(changes, version);
  }

  #findOwn(id: string, got: number): boolean {
    this.#ownId = id;
    this.#ownVerdict = null;
    this.#take(got);
    if (got === chunk.length) this.#drain();
    const verdict = this.#ownVerdict as boolean | null;
    this.#ownId = "";
    if (verdict !== null || this.#sealedAtMs !== null) return verdict === true;
    throw damaged(this.#path(this.#number), "a line that was just appended is not in it");
  }

  #drain(): void {
    for (;;) {
      const got = readSync(this.#fd, chunk, 0, chunk.length, this.#readTo);
      if (got === 0) return;
      const from = this.#readTo;
      this.#take(got);
      if (got < chunk.length) return;
      // Grow the buffer for a line that does not fit, and for a long log.
      if (this.#readTo === from || chunk.length < LONGEST_CHUNK_BYTES)
        chunk = Buffer.allocUnsafe(chunk.length * 2);
    }
  }

  /** Applies the complete lines of the first `got` bytes. The next read repeats the rest. */
  #take(got: number): void {
    const last = got === 0 ? -1 : chunk.lastIndexOf(LF, got - 1);
    let at = 0;
    while (at <= last && this.#sealedAtMs === null) {
      const end = chunk.indexOf(LF, at);
      if (end > at) this.#takeLine(at, end);
      at = end + 1;
    }
    this.#readTo += at;
  }

  #takeLine(from: number, to: number): void {
    const line = parseLine(chunk, from, to);
    if (line === "cut") return;
    const version = this.#readTo + from;
    if (line === "damaged")
      throw damaged(this.#path(this.#number), `the line at byte ${version} has a wrong checksum`);
    this.#takeParsed(line, version);
  }

  #takeParsed(line: Line, version: number): void {
    switch (line.kind) {
      case "step": {
        const verdict = this.#apply(line.changes, version);
        if (line.id === this.#ownId) this.#ownVerdict = verdict;
        return;
      }
      case "kept":
        line.entry.version = version;
        this.#entries.set(line.entry.key, line.entry);
        return;
      case "seal":
        this.#sealedAtMs = line.timeMs;
        return;
      case "head":
        if (line.format !== LOG_FORMAT) throw otherVersion(this.#path(this.#number), line.format, LOG_FORMAT);
        // The name of a folder is only a short digest of the namespace (P18).
        if (line.namespace !== JSON.stringify(this.#options.folder.namespace))
          throw damaged(this.#path(this.#number), `it belongs to the namespace ${line.namespace}`);
        this.#floor = Math.max(this.#floor, line.floor);
    }
  }

  #apply(changes: readonly Entry[], version: number): boolean {
    for (const change of changes) {
      if ((this.#entries.get(change.key)?.version ?? 0) !== change.version) return false;
    }
    for (const change of changes) {
      change.version = version;
      this.#entries.set(change.key, change);
    }
    return true;
  }

  /**
   * Ends this log. It writes the draft of the next log first, because no step is possible between the
   * seal and the next log. On a full disk, this log simply grows.
   */
  #seal(timeMs: number): void {
    const draft = this.#draftPath(this.#number + 1);
    try {
      this.#writeDraft(draft, timeMs);
      writeWhole(this.#fd, sealLine(timeMs));
    } catch {
      this.#limit *= 2;
      remove(draft);
      return;
    }
    this.refresh();
    remove(draft);
  }

  /** Opens the next log, and makes it if it does not exist. False if a read-only process finds none. */
  #followSeal(): boolean {
    const next = this.#number + 1;
    if (this.#open(next)) return true;
    if (this.#options.isReadOnly) {
      this.#openNewest();
      return this.#number >= next;
    }
    const isMine = this.#makeNext(next);
    if (!this.#open(next)) this.#openNewest();
    if (isMine) {
      this.#removeOld();
      makeSpare(this.#options.folder);
    }
    return true;
  }

  #makeNext(number: number): boolean {
    const draft = this.#draftPath(number);
    try {
      this.#writeDraft(draft, this.#sealedAtMs as number);
      if (statSync(this.#path(number - 1), { throwIfNoEntry: false }) === undefined) return false;
      linkSync(draft, this.#path(number));
      return true;
    } catch (error) {
      if (errno(error) === "EEXIST" || errno(error) === "ENOENT") return false;
      throw error;
    } finally {
      remove(draft);
    }
  }

  #writeDraft(path: string, timeMs: number): void {
    const { folder } = this.#options;
    const kept: Buffer[] = [];
    let floor = this.#floor;
    for (const [key, { text }] of this.#entries) {
      const last = this.#options.lastFenceIfOver(text, timeMs);
      if (last === null) kept.push(Buffer.from(keptLine(key, text)));
      else floor = Math.max(floor, last);
    }
    const bytes = Buffer.concat([Buffer.from(headLine(floor, folder.namespace)), ...kept]);
    withSpare(folder, true, () => {
      remove(path);
      const fd = folder.create(path);
      try {
        writeWhole(fd, bytes);
      } finally {
        closeSync(fd);
      }
    });
  }

  #open(number: number): boolean {
    const path = this.#path(number);
    const fd = this.#options.folder.open(path, this.#options.isReadOnly ? constants.O_RDONLY : APPEND);
    if (fd === null) return false;
    this.close();
    this.#fd = fd;
    this.#stats = fstatSync(fd);
    this.#number = number;
    this.#readTo = 0;
    this.#entries = new Map();
    this.#sealedAtMs = null;
    this.#drain();
    this.#limit = Math.max(this.#options.longestBytes ?? LONGEST_LOG_BYTES, GROWTH * this.#readTo);
    return true;
  }

  #openNewest(): void {
    for (let left = LISTINGS; left > 0; left -= 1) {
      const newest = this.#list().logs.at(-1);
      if (newest === undefined || !this.#open(newest)) continue;
      while (this.#sealedAtMs !== null && !this.#options.isReadOnly) this.#followSeal();
      return;
    }
    throw new MissingLogError(`there is no log in ${this.#options.folder.path}`);
  }

  #list(): { readonly logs: readonly number[]; readonly drafts: readonly string[] } {
    const names = readdirSync(this.#options.folder.base);
    const logs = names.filter((name) => LOG_NAME.test(name)).map(numberOf);
    return { logs: logs.sort((a, b) => a - b), drafts: names.filter((name) => DRAFT_NAME.test(name)) };
  }

  #removeOld(): void {
    for (;;) {
      const oldest = this.#list().logs[0];
      // Listed again, because the drafts must be listed after the log before `oldest` was gone.
      const { logs, drafts } = this.#list();
      if (oldest === undefined || logs[0] !== oldest || logs.length < 2) return;
      for (const name of drafts) {
        if (numberOf(name) <= oldest) remove(this.#options.folder.join(name));
      }
      remove(this.#path(oldest));
      if (statSync(this.#path(oldest), { throwIfNoEntry: false }) !== undefined) return;
    }
  }

  #path(number: number): string {
    return this.#options.folder.join(`log.${number}`);
  }

  #draftPath(number: number): string {
    return this.#options.folder.join(`draft.${number}.${this.#options.self}`);
  }
}

const LOG_NAME = /^log\.\d+$/;
const DRAFT_NAME = /^draft\.\d+\./;
const APPEND = constants.O_RDWR | constants.O_APPEND;

function numberOf(name: string): number {
  return Number(name.split(".")[1]);
}

/** Throws ENOSPC if the disk took only a part of the bytes. Every reader ignores an incomplete line. */
function writeWhole(fd: number, bytes: Buffer): void {
  const wrote = writeSync(fd, bytes, 0, bytes.length, null);
  if (wrote === bytes.length) return;
  throw Object.assign(new Error("a line was written in part"), { code: "ENOSPC" });
}

/** Ignores errors: the file may be gone, or belong to another user of a shared directory. */
function remove(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // The next process removes the file.
  }
}
