// What people are told when the disk of a store is full (P17), in the words that real servers used in the fault runs; and that a
// run in which nobody noticed the full disk fails.

import { describe, expect, it } from "vitest";
import { FULL_DISK, fullDisk } from "../../faults/targets/full-disk.ts";
import type { LockError } from "../core/errors.ts";
import { etcdError } from "./etcd/errors.ts";
import { fileError } from "./local/errors.ts";
import { mysqlError } from "./mysql/errors.ts";
import { postgresError } from "./postgres/errors.ts";
import { redisError } from "./redis/errors.ts";
import { reasonOf } from "./redlock/errors.ts";

const DOING = "try for the lock";
const withFields = (message: string, fields: object): Error => Object.assign(new Error(message), fields);

const postgres = (message: string): LockError =>
  postgresError(withFields(message, { code: "53100", severity: "ERROR" }), DOING, "k");
const mysql = (message: string, errno: number): LockError =>
  mysqlError(withFields(message, { errno, sqlState: "HY000" }), DOING, "k");
const redis = (message: string): LockError => redisError(new Error(message), DOING, "k");

const AOF =
  "MISCONF Errors writing to the AOF file: No space left on device script: 3d86, on @user_script:121.";

describe("a store whose disk is full", () => {
  const told: Readonly<Record<string, LockError>> = {
    "postgres, a table": postgres('could not extend file "base/5/16384_fsm": No space left on device'),
    "postgres, its log": postgres('could not write to file "pg_wal/xlogtemp.27678": No space left on device'),
    "mysql, a tablespace": mysql("The table 'holdfast_locks' is full", 1114),
    "mysql, a file": mysql(`Error writing file './bin.000001' (Errcode: 28 "No space left on device")`, 3),
    "mysql, an engine": mysql(`Got error 28 "No space left on device" from storage engine InnoDB`, 1030),
    "mysql, a sort": mysql("Disk full (/tmp/#sql); waiting for someone to free some space", 1021),
    "redis, its log": redis(AOF),
    "etcd, its quota": etcdError(
      withFields("", { code: 8, details: "mvcc: database space exceeded" }),
      DOING,
    ),
    "local, a file": fileError(withFields("write", { code: "ENOSPC" }), "write", "/a/file", "k"),
  };
  for (const [what, error] of Object.entries(told)) {
    it(`is told by name and with what to do, and may be asked again: ${what}`, () => {
      expect(error.code).toBe("ERR_STORE_UNAVAILABLE");
      expect(error.message).toMatch(/is full|no room left/);
      expect(error.message).toMatch(/free some space|compact and defragment/);
      expect(error.retryable).toBe(true);
    });
  }

  it("is told of one node of a redlock, too", () => {
    expect(reasonOf(new Error(AOF))).toMatch(/free some space: MISCONF.*No space left/);
  });

  it("is no guess where a Redis only says that it cannot save", () => {
    const error = redis(
      "MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk.",
    );
    expect(error.message).toMatch(/cannot write to its disk.*its log says why/);
  });
});

describe(`a run of ${FULL_DISK}`, () => {
  const acts: string[] = [];
  const disk = {
    answers: 3,
    fill: (folder: string) => void acts.push(`fill ${folder}`),
    free: () => void acts.push("free"),
  };
  const mend = (): Promise<unknown> => Promise.resolve(acts.push("mend"));

  it("fails when nobody has noticed, and when its servers have no such disk", async () => {
    await expect(fullDisk(disk, [{ folder: "a" }], "x", 30).begin()).rejects.toThrow(/nobody tried to write/);
    await expect(fullDisk(null, [{ folder: "a" }]).begin()).rejects.toThrow(/no disk that could be full/);
  });

  it("fills one folder after another, and mends each", async () => {
    acts.length = 0;
    const provoke = (): Promise<void> => Promise.resolve(void (disk.answers += 1));
    const refused = (): Promise<void> => provoke().then(() => Promise.reject(new Error("full")));
    const trick = fullDisk(
      disk,
      [
        { folder: "a", provoke, mend },
        { folder: "b", provoke: refused },
      ],
      "x",
      30,
    );
    for (let strikes = 0; strikes < 2; strikes += 1) {
      await trick.begin();
      await trick.end();
    }
    expect(acts).toEqual(["fill a", "free", "mend", "fill b", "free"]);
  });
});
