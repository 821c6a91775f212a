// Is this etcd safe to lock on (P19)? Asked by `check()`; what cannot be read is a finding, not a refusal.

import { UnsupportedError } from "../../core/errors.ts";
import type { Finding } from "../../core/store.ts";
import { CORRUPT, NOSPACE } from "./messages.ts";
import type { ServerFacts } from "./port.ts";

/** The first releases of each line in which a leader that stood still does not end leases of its successor. */
const LEASES_MENDED: readonly (readonly [number, number, number])[] = [
  [3, 4, 31],
  [3, 5, 13],
];
const OLDEST: readonly [number, number] = [3, 4];
/** Default of --quota-backend-bytes; before 3.6 nobody tells what it is set to. */
const USUAL_QUOTA = 2 * 1_024 ** 3;
const NEARLY = 0.8;

function parts(version: string): [number, number, number] {
  const [major = 0, minor = 0, patch = 0] = version
    .split(/[.+-]/)
    .map((part) => Number.parseInt(part, 10) || 0);
  return [major, minor, patch];
}

export function refuseOld(version: string): void {
  const [major, minor] = parts(version);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  throw new UnsupportedError(`this is etcd ${version}: holdfast needs ${OLDEST.join(".")} or later`);
}

export function hasLeaseBugs(version: string): boolean {
  const [major, minor, patch] = parts(version);
  const line = LEASES_MENDED.find((mended) => mended[0] === major && mended[1] === minor);
  return line === undefined ? major === 3 && minor < 4 : patch < line[2];
}

export function findings(facts: ServerFacts, allow: readonly string[]): Finding[] {
  const { version, alarms, members, silent } = facts;
  const found: Finding[] = [];
  if (version === null) found.push(UNTOLD);
  if (version !== null && hasLeaseBugs(version)) {
    found.push({
      id: "old-etcd",
      level: allow.includes("old-etcd") ? "info" : "warning",
      what: `this is etcd ${version}`,
      why: "a leader that stood still for long may end leases after it was replaced: the key is then free while its holder still works, and only the fence tells",
      fix: 'update to 3.4.31, 3.5.13 or later, let the resource check the fence, or accept it with allow: ["old-etcd"]',
    });
  }
  if (alarms === null) found.push(UNREADABLE);
  if (alarms?.includes(NOSPACE)) found.push(FULL);
  if (alarms?.includes(CORRUPT)) found.push(BROKEN);
  found.push(...filling(facts));
  if (members === 1) found.push(ALONE);
  for (const what of silent) found.push({ ...SILENT, what });
  return found;
}

function filling({ dbSize, quota }: ServerFacts): Finding[] {
  const most = quota || USUAL_QUOTA;
  if (dbSize === null || dbSize <= NEARLY * most) return [];
  const megabytes = (bytes: number): string => `${Math.round(bytes / 1_024 ** 2)} MB`;
  return [
    {
      id: "database-size",
      level: quota === 0 ? "info" : "warning",
      what: `the database has ${megabytes(dbSize)} of ${megabytes(most)}${quota === 0 ? ", unless its quota was changed" : ""}`,
      why: "at --quota-backend-bytes no lock can be acquired any more",
      fix: "turn on --auto-compaction-retention, defragment, or raise the quota",
    },
  ];
}

const UNTOLD: Finding = {
  id: "status-unknown",
  level: "info",
  what: "this user may not read the status of the cluster, as on every etcd since 3.5.28",
  why: "the version and the size of the database are not known",
  fix: "look with etcdctl endpoint status as root",
};

const UNREADABLE: Finding = {
  id: "alarms-unknown",
  level: "info",
  what: "this user may not read the alarms of the cluster",
  why: "whether it is full or corrupt is not known",
  fix: "look with etcdctl alarm list",
};

const FULL: Finding = {
  id: "nospace",
  level: "danger",
  what: "the alarm NOSPACE is on: the database is full",
  why: "nothing can be acquired; what is held can be renewed and released",
  fix: "compact and defragment, then etcdctl alarm disarm; turn on --auto-compaction-retention",
};

const BROKEN: Finding = {
  id: "corrupt",
  level: "danger",
  what: "the alarm CORRUPT is on: members disagree about their data",
  why: "two members may grant one key twice",
  fix: "take the corrupt member out and let it join anew",
};

const SILENT: Omit<Finding, "what"> = {
  id: "member-unreachable",
  level: "warning",
  why: "the others have to be a majority without it, and one more that fails may be one too many",
  fix: "start it, let it reach its peers, or take it out of the URL",
};

const ALONE: Finding = {
  id: "one-member",
  level: "info",
  what: "the cluster has one member",
  why: "while it is down nothing can be renewed, and leases end",
  fix: "three members stand the loss of one, five the loss of two",
};
