// The log: which of two steps counts, replacement by the next log, and lines that are cut or damaged.

import {
  appendFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Folder } from "./folder.ts";
import { openDirectory } from "./lock-directory.ts";
import { Log, MissingLogError } from "./log.ts";
import { type Entry, headLine, sealLine, stepLine } from "./log-format.ts";

const NAMESPACE = "test";
const KEY = '"k"';
let dir: string;
let folders: Folder[];
let opened: number;
let drawn: number;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "hf-log-"));
  folders = [];
  [opened, drawn] = [0, 0];
});

afterEach(() => {
  for (const folder of folders) folder.close();
  rmSync(dir, { recursive: true, force: true });
});

function openFolder(): Folder {
  const folder = Folder.open({
    directory: openDirectory(dir),
    bootId: "boot",
    namespace: NAMESPACE,
    emptyLog: Log.emptyText(NAMESPACE),
    randomId: () => `${(drawn += 1)}`.padStart(12, "0"),
  });
  if (folder === null) throw new Error("no folder");
  folders.push(folder);
  return folder;
}

/** Records in these tests are "last fence:in use until". */
function openLog(longestBytes?: number, isReadOnly = false): Log {
  opened += 1;
  return new Log({
    folder: openFolder(),
    self: `p${opened}`,
    isReadOnly,
    longestBytes,
    lastFenceIfOver: (text, timeMs) => {
      const [fence, until] = text.split(":").map(Number) as [number, number];
      return until > timeMs ? null : fence;
    },
  });
}

function logPath(): string {
  const folder = openFolder();
  const names = readdirSync(folder.path).filter((name) => name.startsWith("log."));
  return join(folder.path, names.sort((a, b) => Number(a.slice(4)) - Number(b.slice(4))).at(-1) as string);
}

function entry(key: string, version: number, text: string): Entry {
  return { key, version, text, record: null };
}

function put(log: Log, text: string, key = KEY, timeMs = 0): boolean {
  return log.append([entry(key, log.get(key)?.version ?? 0, text)], timeMs, false);
}

describe("two processes", () => {
  it("see each other's steps, and a step from an old version does not count", () => {
    const [one, two] = [openLog(), openLog()];
    expect(put(one, "1:9")).toBe(true);
    // `two` has not read the step of `one`: its own is made from version 0.
    expect(put(two, "2:9")).toBe(false);
    expect(two.get(KEY)?.text).toBe("1:9");
    expect(put(two, "2:9")).toBe(true);
    one.refresh();
    expect(one.get(KEY)).toEqual(two.get(KEY));
  });

  it("change several keys in one step or none of them (P9)", () => {
    const [one, two] = [openLog(), openLog()];
    put(one, "1:9", '"b"');
    const step = ['"a"', '"b"', '"c"'].map((key) => entry(key, 0, "5:9"));
    expect(two.append(step, 0, false)).toBe(false);
    expect([two.get('"a"'), two.get('"b"')?.text, two.get('"c"')]).toEqual([undefined, "1:9", undefined]);
  });

  it("agree on every verdict, whatever the order of their steps and reads", () => {
    const action = fc.record({
      who: fc.nat(2),
      keys: fc.uniqueArray(fc.nat(3), { minLength: 1, maxLength: 3 }),
      isRead: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60 }), (actions) => {
        const logs = [openLog(600), openLog(600), openLog(600)];
        let won = 0;
        for (const [time, { who, keys, isRead }] of actions.entries()) {
          const log = logs[who] as Log;
          if (isRead) log.refresh();
          const changes = keys.map((key) => {
            const name = `"k${key}"`;
            return entry(name, log.get(name)?.version ?? 0, `${time + 1}:1e9`);
          });
          if (log.append(changes, time, false)) won += 1;
        }
        for (const log of logs) log.refresh();
        const views = logs.map((log) => [...log.entries()].map(([key, { text }]) => `${key} ${text}`).sort());
        expect(views[1]).toEqual(views[0]);
        expect(views[2]).toEqual(views[0]);
        if (actions.length > 0) expect(won).toBeGreaterThan(0);
        for (const log of logs) log.close();
        rmSync(openFolder().path, { recursive: true });
      }),
      { numRuns: 60, seed: 7 },
    );
  });
});

describe("the next log", () => {
  it("has what is in use, drops what is over, and raises the floor (P3, P21)", () => {
    const log = openLog(2_000);
    put(log, "70:1e9", '"kept"');
    for (let i = 0; log.number === 0; i += 1) put(log, `${i}:5`, `"k${i}"`, 10);
    expect(log.number).toBe(1);
    expect(log.get('"kept"')?.text).toBe("70:1e9");
    expect([...log.entries()].map(([key]) => key)).toEqual(['"kept"']);
    expect(log.floor).toBeGreaterThan(5);
    expect(readdirSync(openFolder().path).filter((name) => name !== "spare")).toEqual(["log.1"]);
  });

  it("is found by a process that did not look for many logs", () => {
    const [busy, idle] = [openLog(1_000), openLog(1_000)];
    put(idle, "1:1e9", '"mine"');
    for (let i = 0; busy.number < 5; i += 1) put(busy, `${i}:1e9`);
    expect(put(idle, "7:1e9", '"other"')).toBe(false);
    expect(idle.number).toBe(busy.number);
    expect(put(idle, "7:1e9", '"other"')).toBe(true);
    busy.refresh();
    expect(busy.get('"other"')?.text).toBe("7:1e9");
    expect(busy.get('"mine"')?.text).toBe("1:1e9");
  });

  it("is never made a second time by the draft of a process that was stopped", () => {
    const [busy, slow] = [openLog(1_000), openLog(1_000)];
    // As a process leaves it that is stopped between its check and its link.
    const folder = openFolder();
    const draft = folder.join("draft.1.stopped");
    writeFileSync(draft, headLine(0, NAMESPACE));
    for (let i = 0; busy.number < 2; i += 1) put(busy, `${i}:1e9`);
    expect(() => linkSync(draft, folder.join("log.1"))).toThrow(/ENOENT/);
    slow.refresh();
    expect(slow.number).toBe(busy.number);
  });

  it("has nothing of what was appended after the seal", () => {
    const log = openLog();
    put(log, "1:1e9");
    const version = log.get(KEY)?.version ?? 0;
    const late = Buffer.from(stepLine("late.1", [entry(KEY, version, "9:1e9")]));
    appendFileSync(logPath(), Buffer.concat([Buffer.from(sealLine(5)), late]));
    expect(openLog().get(KEY)?.text).toBe("1:1e9");
    log.refresh();
    expect([log.number, log.get(KEY)?.text]).toEqual([1, "1:1e9"]);
  });

  it("waits until it can be written: the log grows on meanwhile", () => {
    const log = openLog(1_000);
    // No draft can be written while a folder has its name.
    const draft = openFolder().join("draft.1.p1");
    mkdirSync(draft);
    for (let i = 0; i < 100; i += 1) expect(put(log, `${i}:1e9`)).toBe(true);
    expect(log.number).toBe(0);
    rmdirSync(draft);
    for (let i = 0; log.number === 0; i += 1) put(log, `${i}:1e9`);
    expect(log.number).toBe(1);
  });
});

describe("a line that is not whole", () => {
  it("because its writer was killed counts for nobody, and others go on", () => {
    const [one, two] = [openLog(), openLog()];
    for (const length of [1, 5, 20, 33, 40, 50]) {
      const version = two.get(KEY)?.version ?? 0;
      const line = stepLine("dead.1", [entry(KEY, version, "9:9")]);
      expect(line.length - 1).toBeGreaterThan(length);
      appendFileSync(logPath(), line.subarray(0, length));
      expect(put(two, `${length}:9`)).toBe(true);
      one.refresh();
      expect(one.get(KEY)?.text).toBe(`${length}:9`);
    }
  });

  it("for want of its last byte counts for everybody once the next line completes it", () => {
    const [one, two] = [openLog(), openLog()];
    const line = Buffer.from(stepLine("slow.1", [entry(KEY, 0, "9:9")]));
    appendFileSync(logPath(), line.subarray(0, line.length - 1));
    expect(put(one, "1:9")).toBe(false);
    two.refresh();
    expect([one.get(KEY)?.text, two.get(KEY)?.text]).toEqual(["9:9", "9:9"]);
  });

  it("because its record is damaged rejects that key alone", () => {
    put(openLog(), "1:9");
    put(openLog(), "2:9", '"other"');
    const bytes = readFileSync(logPath());
    bytes[bytes.indexOf("1:9")] = 0x37;
    writeFileSync(logPath(), bytes);
    const late = openLog();
    expect([late.get(KEY)?.text, late.get('"other"')?.text]).toEqual(["", "2:9"]);
  });

  it("because its frame or its keys are damaged rejects the log, by file and byte (P19)", () => {
    put(openLog(), "1:9");
    const bytes = readFileSync(logPath());
    const at = bytes.indexOf("step") + 1;
    bytes[at] = (bytes[at] as number) ^ 0x20;
    writeFileSync(logPath(), bytes);
    expect(() => openLog()).toThrow(
      expect.objectContaining({ code: "ERR_STORE_UNSAFE", setting: logPath() }),
    );
  });
});

describe("a log that somebody else changed", () => {
  it("of another format or namespace is rejected (P18, P22)", () => {
    openLog();
    writeFileSync(logPath(), headLine(0, "another"));
    expect(() => openLog()).toThrow(/namespace "another"/);
    writeFileSync(logPath(), headLine(0, NAMESPACE, 9));
    expect(() => openLog()).toThrow(/format 9/);
  });

  it("by cutting it off is noticed at the next step", () => {
    const log = openLog();
    for (let i = 0; i < 20; i += 1) put(log, `${i}:9`);
    truncateSync(logPath(), 0);
    expect(() => put(log, "1:9")).toThrow(expect.objectContaining({ code: "ERR_STORE_UNSAFE" }));
  });

  it("by deleting it is seen, and a folder without a log is not opened", () => {
    const log = openLog();
    expect(log.isLinked()).toBe(true);
    unlinkSync(logPath());
    expect(log.isLinked()).toBe(false);
    expect(() => openLog()).toThrow(MissingLogError);
  });
});

describe("a reader", () => {
  it("sees every step and leaves no trace", () => {
    const log = openLog(1_000);
    put(log, "1:1e9");
    rmSync(openFolder().join("spare"));
    const before = readdirSync(openFolder().path);
    const reader = openLog(1_000, true);
    expect(reader.get(KEY)?.text).toBe("1:1e9");
    for (let i = 0; log.number < 3; i += 1) put(log, `${i}:1e9`);
    reader.refresh();
    expect(reader.get(KEY)).toEqual(log.get(KEY));
    expect(before).toEqual(["log.0"]);
  });
});
