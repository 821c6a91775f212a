// etcd for tests: one node, or a cluster of three with a handle per member, on free loopback ports. Elections are quick, so
// that tests of a lost leader are. Data is kept over a restart of a member.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { givenServer } from "./given.ts";
import { type FoundProgram, findProgram, newestOf, type Program } from "./packages.ts";
import { freePorts } from "./ports.ts";
import { launch, type LaunchedProcess, type RunningServer } from "./process.ts";
import type { ServerTls } from "./tls.ts";

export interface EtcdOptions {
  /** Do not take the server that the environment names: this one will be killed. */
  readonly own?: boolean;
  /** More of etcd's own arguments, for example `["--quota-backend-bytes", "1000000"]`. */
  readonly args?: readonly string[];
  /** With certificates: clients must use TLS. */
  readonly tls?: ServerTls;
  /** The version of Debian's unstable suite, 3.5.30 or later, instead of this system's. */
  readonly newest?: boolean;
}

/** One member of a cluster. It can be killed and started again on its ports with its data. */
export interface EtcdMember {
  readonly name: string;
  /** host:port for clients. */
  readonly endpoint: string;
  readonly port: number;
  readonly pid: number | null;
  kill(signal: NodeJS.Signals): void;
  /** kill -9 if need be, then started again; resolves when it answers, with a leader or without. */
  restart(): Promise<void>;
  /** Starts it again after it was killed. */
  start(): Promise<void>;
  /** Whether it leads, as it says itself; false while it does not answer. */
  leads(): Promise<boolean>;
}

export interface EtcdCluster {
  readonly url: string;
  readonly members: readonly EtcdMember[];
  /** The member that leads, or null while there is none. */
  leader(): Promise<EtcdMember | null>;
  /** Resolves when a majority of the members that run know one leader. */
  led(withinMs?: number): Promise<EtcdMember>;
  stop(): Promise<void>;
}

export const etcdProgram: Program = {
  name: "etcd",
  packages: ["etcd-server"],
  // The package needs no library but a libc of version 2.34, which Debian 12 has.
  newest: { suite: "sid", alone: true },
  advice:
    "install etcd 3.4 or later (package etcd-server), or name a running one in HOLDFAST_TEST_ETCD=etcd://host:port",
};

const HEARTBEAT_MS = 50;
const ELECTION_MS = 250;
const ANSWER_MS = 5_000;
const BIND_TRIES = 5;
const LED_MS = 120_000;
const LOOK_EVERY_MS = 10;

export async function startEtcd(
  options: EtcdOptions = {},
): Promise<RunningServer & { restart(): Promise<void> }> {
  if (options.own !== true) {
    const given = await givenServer({
      name: "etcd",
      variable: "HOLDFAST_TEST_ETCD",
      defaultPort: 2379,
      answers: (host, port) => healthy(`${host}:${port}`),
    });
    if (given !== null) {
      return { ...given, restart: () => Promise.reject(new Error("a given etcd is not ours to restart")) };
    }
  }
  const cluster = await startEtcdCluster({ ...options, count: 1 });
  const [member] = cluster.members as [EtcdMember];
  return {
    url: cluster.url,
    port: member.port,
    get pid() {
      return member.pid;
    },
    kill: (signal) => member.kill(signal),
    restart: () => member.restart(),
    stop: () => cluster.stop(),
  };
}

export async function startEtcdCluster(
  options: EtcdOptions & { readonly count?: number } = {},
): Promise<EtcdCluster> {
  const program = await findProgram(options.newest === true ? newestOf(etcdProgram) : etcdProgram);
  for (let tries = 1; ; tries += 1) {
    const cluster = await Cluster.prepare(options.count ?? 3, program, options);
    try {
      await cluster.start();
      return cluster;
    } catch (error) {
      await cluster.stop();
      // Somebody took a port between finding it free and binding it.
      if (!String(error).includes("address already in use") || tries === BIND_TRIES) throw error;
    }
  }
}

class Cluster implements EtcdCluster {
  readonly url: string;
  readonly members: readonly Member[];
  readonly #folder: string;

  private constructor(folder: string, members: readonly Member[], tls: boolean) {
    this.#folder = folder;
    this.members = members;
    this.url = `${tls ? "etcds" : "etcd"}://${members.map((member) => member.endpoint).join(",")}`;
  }

  static async prepare(count: number, program: FoundProgram, options: EtcdOptions): Promise<Cluster> {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-etcd-data-"));
    const ports = await freePorts(3 * count);
    const peers = ports.slice(count, 2 * count);
    const names = peers.map((_port, at) => `m${at}`);
    const initial = names.map((name, at) => `${name}=http://127.0.0.1:${peers[at]}`).join(",");
    const members = names.map(
      (name, at) =>
        new Member({
          name,
          port: ports[at] as number,
          peer: peers[at] as number,
          metrics: ports[2 * count + at] as number,
          dataFolder: join(folder, name),
          initial,
          program,
          options,
        }),
    );
    return new Cluster(folder, members, options.tls !== undefined);
  }

  async start(): Promise<void> {
    // A member answers once it has found the others, so none can be waited for alone.
    await Promise.all(this.members.map((member) => member.start()));
    await this.led();
  }

  async leader(): Promise<EtcdMember | null> {
    const leads = await Promise.all(this.members.map((member) => member.leads()));
    const leaders = this.members.filter((_member, at) => leads[at]);
    return leaders.length === 1 ? (leaders[0] as EtcdMember) : null;
  }

  async led(withinMs: number = LED_MS): Promise<EtcdMember> {
    const deadline = performance.now() + withinMs;
    for (;;) {
      const leader = await this.leader();
      if (leader !== null && (await healthy((leader as Member).health))) return leader;
      if (performance.now() > deadline) throw new Error(`etcd had no leader within ${withinMs} ms`);
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.members.map((member) => member.stop()));
    await rm(this.#folder, { recursive: true, force: true });
  }
}

interface MemberSettings {
  readonly name: string;
  readonly port: number;
  readonly peer: number;
  /** A listener of its own for health and metrics, in clear text also where clients use TLS. */
  readonly metrics: number;
  readonly dataFolder: string;
  readonly initial: string;
  readonly program: FoundProgram;
  readonly options: EtcdOptions;
}

class Member implements EtcdMember {
  readonly name: string;
  readonly port: number;
  readonly endpoint: string;
  readonly health: string;
  readonly #settings: MemberSettings;
  #process: LaunchedProcess | null = null;

  constructor(settings: MemberSettings) {
    this.#settings = settings;
    this.name = settings.name;
    this.port = settings.port;
    this.endpoint = `127.0.0.1:${settings.port}`;
    this.health = `127.0.0.1:${settings.metrics}`;
  }

  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  kill(signal: NodeJS.Signals): void {
    this.#process?.kill(signal);
  }

  async restart(): Promise<void> {
    this.kill("SIGKILL");
    await this.stop();
    await this.start();
  }

  async start(): Promise<void> {
    await this.stop();
    const { program, dataFolder } = this.#settings;
    this.#process = await launch({
      name: "etcd",
      program,
      dataFolder,
      args: (folder) => this.#args(folder),
      ready: () => answers(this.health),
    });
  }

  async stop(): Promise<void> {
    await this.#process?.stop();
    this.#process = null;
  }

  async leads(): Promise<boolean> {
    if (this.#process === null) return false;
    const text = await get(this.health, "metrics").catch(() => "");
    return /^etcd_server_is_leader 1$/m.test(text);
  }

  #args(dataFolder: string): string[] {
    const { name, port, peer, metrics, initial, options } = this.#settings;
    const scheme = options.tls === undefined ? "http" : "https";
    const tls =
      options.tls === undefined
        ? []
        : [
            "--cert-file",
            options.tls.cert,
            "--key-file",
            options.tls.key,
            "--trusted-ca-file",
            options.tls.ca,
          ];
    return [
      ...["--name", name, "--data-dir", dataFolder, "--initial-cluster", initial],
      ...["--listen-client-urls", `${scheme}://127.0.0.1:${port}`],
      ...["--advertise-client-urls", `${scheme}://127.0.0.1:${port}`],
      ...["--listen-peer-urls", `http://127.0.0.1:${peer}`],
      ...["--initial-advertise-peer-urls", `http://127.0.0.1:${peer}`],
      ...["--listen-metrics-urls", `http://127.0.0.1:${metrics}`],
      ...["--unsafe-no-fsync", `--heartbeat-interval=${HEARTBEAT_MS}`, `--election-timeout=${ELECTION_MS}`],
      ...["--logger=zap", "--log-level=warn", ...tls, ...(options.args ?? [])],
    ];
  }
}

async function get(address: string, path: string): Promise<string> {
  const response = await fetch(`http://${address}/${path}`, { signal: AbortSignal.timeout(ANSWER_MS) });
  return await response.text();
}

/** It serves and has a leader. */
async function healthy(address: string): Promise<boolean> {
  return /"health":"true"/.test(await get(address, "health").catch(() => ""));
}

/** It serves, whether it has a leader or not. */
async function answers(address: string): Promise<boolean> {
  return (await get(address, "metrics")).includes("etcd_server_has_leader");
}
