// An ensemble of three ZooKeeper servers that write to disk before they answer, and what can happen to it: its leader killed or
// frozen, one server gone for a while, a majority gone and back.

import { dirname } from "node:path";
import { type Ensemble, fourLetters, type Member, startEnsemble } from "../../scripts/servers/zookeeper.ts";
import { createLocks } from "../../src/index.ts";
import { zookeeperGuarantees } from "../../src/stores/zookeeper/index.ts";
import { Disk } from "../disk.ts";
import { type Filling, FULL_DISK, fullDisk } from "./full-disk.ts";
import { serverClocks } from "./server-clock.ts";
import type { FaultyServer, Target, Trick } from "./target.ts";

/** Short, so that clients that are stopped or cut off outlive their session often. */
const SESSION_MS = 1_500;
/** The log grows by 16 KB at a time, so that a full disk is soon noticed. */
const SMALL_STEPS = "preAllocSize=16";

export async function zookeeperTarget(folder: string, fault: string): Promise<Target> {
  const disk = fault === FULL_DISK ? await Disk.open() : null;
  const clocks = await serverClocks(fault, folder, 3);
  const env = (at: number): Readonly<Record<string, string>> => ({
    ...clocks[at]?.env,
    ...disk?.environment,
  });
  const ensemble = await startEnsemble(3, disk === null ? [] : [SMALL_STEPS], env);
  const [first] = ensemble.members;
  const said = first === undefined ? "" : await fourLetters(first.port, "srvr");
  return {
    url: urlOf(ensemble.members.map(({ port }) => port)),
    guarantees: zookeeperGuarantees(SESSION_MS),
    servers: ensemble.members.map(faulty),
    clocks: ensemble.members.map(({ name, port }, at) => ({
      name,
      set: (ms) => clocks[at]?.set(ms),
      nowMs: () => nowOf(port),
    })),
    survives: ["server restart"],
    through: urlOf,
    tricks: {
      "leader-kill": ofLeader(ensemble, "SIGKILL", (victim) => victim.restart()),
      "leader-freeze": ofLeader(ensemble, "SIGSTOP", (victim) => Promise.resolve(victim.kill("SIGCONT"))),
      "member-restart": memberRestart(ensemble),
      "majority-lost": majorityLost(ensemble),
      [FULL_DISK]: fullDisk(disk, fillings(ensemble)),
    },
    settled: () => ensemble.settled(),
    version: `ZooKeeper ${/version: ([\d.]+)/.exec(said)?.[1]}, three servers`,
    async stop() {
      await ensemble.stop();
      disk?.close();
    },
  };
}

function urlOf(ports: readonly number[]): string {
  const hosts = ports.map((port) => `127.0.0.1:${port}`).join(",");
  return `zookeeper://${hosts}?sessionTimeout=${SESSION_MS}ms`;
}

/** A server tells the time of a session's beginning, so there has to be one. */
async function nowOf(port: number): Promise<number> {
  const locks = createLocks(urlOf([port]));
  try {
    await locks.check();
    const began = [...(await fourLetters(port, "cons")).matchAll(/est=(\d+)/g)].map(([, ms]) => Number(ms));
    return Math.max(...began);
  } finally {
    await locks.close();
  }
}

function faulty(member: Member): FaultyServer {
  return {
    name: member.name,
    port: member.port,
    async kill() {
      member.kill("SIGKILL");
      await member.restart();
    },
    freeze: () => member.kill("SIGSTOP"),
    thaw: () => member.kill("SIGCONT"),
    async down() {
      member.kill("SIGKILL");
    },
    up: () => member.restart(),
  };
}

/** Long enough for the others to choose a new one, or too short for it. */
function ofLeader(
  ensemble: Ensemble,
  signal: NodeJS.Signals,
  undo: (victim: Member) => Promise<void>,
): Trick {
  let victim: Member | null = null;
  return {
    everyMs: [1_000, 3_000],
    forMs: [200, 4_000],
    async begin() {
      victim = await ensemble.leader();
      victim.kill(signal);
    },
    async end() {
      if (victim !== null) await undo(victim);
    },
  };
}

function memberRestart(ensemble: Ensemble): Trick {
  let next = 0;
  let victim: Member | undefined;
  return {
    everyMs: [500, 1_500],
    forMs: [0, 1_500],
    begin() {
      victim = ensemble.members[next % ensemble.members.length];
      next += 1;
      victim?.kill("SIGKILL");
      return Promise.resolve();
    },
    async end() {
      await victim?.restart();
    },
  };
}

/** One server after the other, and then all at once: they share a disk. A leader that cannot write its log ends itself, a follower leaves. */
function fillings(ensemble: Ensemble): readonly Filling[] {
  const { members } = ensemble;
  const mend = async (ended: readonly Member[]): Promise<void> => {
    await Promise.all(ended.map((member) => member.restart()));
    await ensemble.settled();
  };
  const all = { folder: dirname(members[0]?.folder ?? ""), mend: () => mend(members) };
  return members.flatMap((member) => [{ folder: member.folder, mend: () => mend([member]) }, all]);
}

function majorityLost(ensemble: Ensemble): Trick {
  const victims = ensemble.members.slice(1);
  return {
    everyMs: [2_000, 5_000],
    forMs: [300, 3_000],
    begin() {
      for (const victim of victims) victim.kill("SIGKILL");
      return Promise.resolve();
    },
    async end() {
      await Promise.all(victims.map((victim) => victim.restart()));
      await ensemble.settled();
    },
  };
}
