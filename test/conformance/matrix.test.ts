// A test that the tests exist: every store x case pair is run, or declared absent with the reason that the guarantees give.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import {
  allCases,
  type Runner,
  type Server,
  type Subject,
  testStore,
  titleOf,
} from "../../src/testing/index.ts";
import { storeModes } from "../../src/stores/registry.ts";
import { mysqlSubject } from "../stores/mysql/subject.ts";
import { cases, pinned, type PinnedStore } from "./pinned.ts";
import { etcdSubject } from "../stores/etcd/subject.ts";
import { advisorySubject, postgresSubject } from "../stores/postgres/subject.ts";
import { clusterSubject, sentinelSubject } from "../stores/redis/topology-subject.ts";
import { redisSubject } from "../stores/redis/subject.ts";
import { redlockSubject } from "../stores/redlock/subject.ts";
import { localSubject } from "../stores/local/subject.ts";
import { memorySubject } from "../stores/memory/subject.ts";
import { zookeeperSubject } from "../stores/zookeeper/subject.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const STORES = join(ROOT, "src", "stores");
/** Folders beside the stores that are none. */
const NOT_STORES = ["shared"];

const subjects: Readonly<Record<string, { readonly store: Subject; readonly server?: Server }>> = {
  etcd: etcdSubject(),
  "etcd-exclusive": etcdSubject({ order: "exclusive" }),
  memory: { store: memorySubject() },
  local: localSubject(),
  mysql: mysqlSubject("table"),
  "mysql-row": mysqlSubject("row"),
  postgres: postgresSubject(),
  "postgres-advisory": advisorySubject(),
  redis: redisSubject(),
  "redis-cluster": clusterSubject(),
  "redis-sentinel": sentinelSubject(),
  redlock: redlockSubject(),
  zookeeper: zookeeperSubject(),
};
/** `mysql-row` is the mode `row` of the store `mysql`: a file for `npm run test:all`. */
function conformanceFile(name: string): string {
  const [store = "", mode] = name.split("-");
  const file = mode === undefined ? "conformance.test.ts" : `conformance-${mode}.long.test.ts`;
  return join(ROOT, "test", "stores", store, file);
}

const storeNames = storeModes.map(({ name }) => name);
const folders = readdirSync(STORES, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && !NOT_STORES.includes(entry.name))
  .map((entry) => entry.name);

/** A runner that runs nothing and remembers what it was given. */
function recorder(): { readonly runner: Runner; readonly titles: string[] } {
  const titles: string[] = [];
  const runner: Runner = {
    describe: (_name, fn) => fn(),
    it: (name) => titles.push(name),
    beforeAll: () => {},
    afterAll: () => {},
  };
  return { runner, titles };
}

afterAll(async () => {
  for (const { server } of Object.values(subjects)) await server?.stop?.();
});

describe("the cases", () => {
  it("are as many as is pinned", () => {
    const count = (level: string): number => allCases.filter((one) => one.level === level).length;
    expect({ contract: count("contract"), api: count("api"), process: count("process") }).toEqual(cases);
  });

  it("have an id and a title of their own each, and cite promises that exist", () => {
    expect(new Set(allCases.map((one) => one.id)).size).toBe(allCases.length);
    expect(new Set(allCases.map(titleOf)).size).toBe(allCases.length);
    for (const one of allCases) {
      expect(one.promises.length, one.id).toBeGreaterThan(0);
      for (const promise of one.promises) expect(promise, one.id).toMatch(/^P([1-9]|1[0-9]|2[0-2])$/);
    }
  });
});

describe("every store", () => {
  it("is a row of the registry", () => {
    expect(storeNames).toEqual(expect.arrayContaining(folders));
  });

  it("is in the pinned table and has a test file that leaves nothing out", () => {
    expect(Object.keys(pinned).sort()).toEqual([...storeNames].sort());
    expect(Object.keys(subjects).sort()).toEqual([...storeNames].sort());
    for (const name of storeNames) {
      const path = conformanceFile(name);
      expect(existsSync(path), path).toBe(true);
      const text = readFileSync(path, "utf8");
      expect(text, path).toContain("testStore({");
      expect(text, path).not.toMatch(/\b(skip|only|todo|runIf|skipIf)\b/);
    }
  });
});

describe.each(storeNames)("%s", (name) => {
  const { store } = subjects[name] as { readonly store: Subject };
  const row = pinned[name] as PinnedStore;

  it("declares what is pinned", () => {
    expect(store.guarantees).toMatchObject(row.guarantees);
    expect([...store.guarantees.kinds].sort()).toEqual([...row.guarantees.kinds].sort());
  });

  it("runs every case, or declares it absent for the pinned reason", () => {
    const { runner, titles } = recorder();
    const plan = testStore({ runner, store });
    expect(plan.absent).toEqual(row.absent);
    for (const one of allCases) {
      const run = titles.includes(titleOf(one));
      const absent = row.absent[one.id] !== undefined;
      expect({ case: one.id, run, absent }).toEqual({ case: one.id, run: !absent, absent });
    }
    expect(titles.length).toBe(1 + allCases.length - Object.keys(row.absent).length);
  });
});
