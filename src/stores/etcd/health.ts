// Findings about an etcd cluster for `check()` and doctor (P19). What cannot be read is a finding, not an
// error.

import { UnsupportedError } from "../../core/errors.ts";
import type { Finding } from "../../core/store.ts";
import type { ServerFacts } from "./cluster/cluster.ts";
import { CORRUPT, NOSPACE } from "./protocol/messages.ts";

/** The first releases in which a leader that was paused does not end leases of its successor. */
const LEASES_FIXED: readonly (readonly [number, number, number])[] = [
  [3, 4, 31],
  [3, 5, 13],
];
const OLDEST: readonly [number, number] = [3, 4];
/** Default of --quota-backend-bytes. Servers before 3.6 do not report the setting. */
const DEFAULT_QUOTA = 2 * 1_024 ** 3;
const NEARLY_FULL = 0.8;

function parse(version: string): [number, number, number] {
  const [major = 0, minor = 0, patch = 0] = version
    .split(/[.+-]/)
    .map((part) => Number.parseInt(part, 10) || 0);
  return [major, minor, patch];
}

export function rejectOldVersion(version: string): void {
  const [major, minor] = parse(version);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  throw new UnsupportedError(`this is etcd ${version}: holdfast needs ${OLDEST.join(".")} or later`);
}

export function hasLeaseBugs(version: string): boolean {
  const [major, minor, patch] = parse(version);
  const line = LEASES_FIXED.find((fixed) => fixed[0] === major && fixed[1] === minor);
  return line === undefined ? major === 3 && minor < 4 : patch < line[2];
}

export function findings(facts: ServerFacts, allow: readonly string[]): Finding[] {
  const { version, alarms, members, unreachable } = facts;
  const found: Finding[] = [];
  if (version === null) found.push(STATUS_UNKNOWN);
  if (version !== null && hasLeaseBugs(version)) {
    found.push({
      id: "old-etcd",
      level: allow.includes("old-etcd") ? "info" : "warning",
      what: `this is etcd ${version}`,
      why:
        "a leader that was paused for long may end leases after it was replaced: the key is then free " +
        "while its holder still works, and only the fence protects the resource",
      fix:
        "update to 3.4.31, 3.5.13 or later, let the resource check the fence, " +
        'or accept it with allow: ["old-etcd"]',
    });
  }
  if (alarms === null) found.push(ALARMS_UNKNOWN);
  if (alarms?.includes(NOSPACE)) found.push(NO_SPACE);
  if (alarms?.includes(CORRUPT)) found.push(CORRUPTED);
  found.push(...databaseSize(facts));
  if (members === 1) found.push(ONE_MEMBER);
  for (const what of unreachable) found.push({ ...UNREACHABLE, what });
  return found;
}

function databaseSize({ dbSize, quota }: ServerFacts): Finding[] {
  const most = quota || DEFAULT_QUOTA;
  if (dbSize === null || dbSize <= NEARLY_FULL * most) return [];
  const unless = quota === 0 ? ", unless its quota was changed" : "";
  const megabytes = (bytes: number): string => `${Math.round(bytes / 1_024 ** 2)} MB`;
  return [
    {
      id: "database-size",
      level: quota === 0 ? "info" : "warning",
      what: `the database has ${megabytes(dbSize)} of ${megabytes(most)}${unless}`,
      why: "at --quota-backend-bytes no lock can be acquired any more",
      fix: "turn on --auto-compaction-retention, defragment, or raise the quota",
    },
  ];
}

const STATUS_UNKNOWN: Finding = {
  id: "status-unknown",
  level: "info",
  what: "this user may not read the status of the cluster, as on every etcd since 3.5.28",
  why: "the version and the size of the database are not known",
  fix: "check with etcdctl endpoint status as root",
};

const ALARMS_UNKNOWN: Finding = {
  id: "alarms-unknown",
  level: "info",
  what: "this user may not read the alarms of the cluster",
  why: "whether it is full or corrupt is not known",
  fix: "check with etcdctl alarm list",
};

const NO_SPACE: Finding = {
  id: "nospace",
  level: "danger",
  what: "the alarm NOSPACE is on: the database is full",
  why: "nothing can be acquired; what is held can be renewed and released",
  fix: "compact and defragment, then etcdctl alarm disarm; turn on --auto-compaction-retention",
};

const CORRUPTED: Finding = {
  id: "corrupt",
  level: "danger",
  what: "the alarm CORRUPT is on: members disagree about their data",
  why: "two members may grant one key twice",
  fix: "remove the corrupt member and add it again",
};

const UNREACHABLE: Omit<Finding, "what"> = {
  id: "member-unreachable",
  level: "warning",
  why: "the others have to be a majority without it, and one more that fails may be one too many",
  fix: "start it, let it reach its peers, or take it out of the URL",
};

const ONE_MEMBER: Finding = {
  id: "one-member",
  level: "info",
  what: "the cluster has one member",
  why: "while it is down nothing can be renewed, and leases end",
  fix: "three members stand the loss of one, five the loss of two",
};
