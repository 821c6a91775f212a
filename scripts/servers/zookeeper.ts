// ZooKeeper for tests: one server, or an ensemble of several whose members can be killed, frozen and started again one by one.
// Ticks of 200 ms, so that sessions of less than a second can be had. Java and its libraries are unpacked, never installed.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { access, readdir } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { givenServer } from "./given.ts";
import { type FoundProgram, findProgram, type Program, unpackedTree, wantsNewest } from "./packages.ts";
import { freePort, freePorts } from "./ports.ts";
import { launch, type LaunchedProcess, type RunningServer } from "./process.ts";

const TICK_MS = 200;
const ANSWER_MS = 5_000;
const START_MS = 120_000;
const BIND_TRIES = 5;
const MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
/** What the server cannot start without; of each the file without a version in its name. */
const JARS = [
  ...[
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-simple",
    "metrics-core",
    "snappy-java",
    "commons-io",
  ],
  ...["netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver", "netty-transport"],
];
const JAVA_FLAGS = [
  ...["-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"],
  ...["-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true", "-Dzookeeper.jmx.log4j.disable=true"],
  "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

export const zookeeperProgram: Program = {
  name: "java",
  packages: [
    ...["libzookeeper-java", "openjdk-17-jre-headless", "libslf4j-java", "libnetty-java"],
    ...["libdropwizard-metrics-java", "libsnappy-java", "libcommons-io-java"],
  ],
  unpacked: true,
  alone: true,
  folders: ["usr/lib/jvm/java-17-openjdk-amd64/bin", "usr/lib/jvm/java-17-openjdk-arm64/bin"],
  advice: "name a running ZooKeeper in HOLDFAST_TEST_ZOOKEEPER=zookeeper://host:port",
};

/** Java and the libraries stay those of this system: a newer Java needs a newer libc. */
const newestServer: Program = {
  name: "zookeeper",
  packages: ["libzookeeper-java"],
  suite: "sid",
  alone: true,
  advice: zookeeperProgram.advice,
};

export interface ZooKeeperOptions {
  /** Do not take the server that the environment names: this one will be killed. */
  readonly own?: boolean;
  readonly port?: number;
  /** Keeps the data for a restart; default a temporary folder. */
  readonly dataFolder?: string;
  /** More lines of zoo.cfg; a later line wins. */
  readonly config?: readonly string[];
  /** More of Java's own arguments. */
  readonly java?: readonly string[];
  /** Default true: it is ready when it serves, without waiting for others. */
  readonly alone?: boolean;
  /** More of the environment, for example a clock. */
  readonly env?: Readonly<Record<string, string>>;
}

export async function startZooKeeper(options: ZooKeeperOptions = {}): Promise<RunningServer> {
  if (options.own !== true) {
    const given = await givenServer({
      name: "ZooKeeper",
      variable: "HOLDFAST_TEST_ZOOKEEPER",
      defaultPort: 2181,
      answers: (host, port) => serves(port, host),
    });
    if (given !== null) return given;
  }
  for (let tries = 1; ; tries += 1) {
    const port = options.port ?? (await freePort());
    try {
      const server = await startMember({ port, lines: [], ...options });
      return { url: `zookeeper://127.0.0.1:${port}`, port, ...handle(server) };
    } catch (error) {
      const taken = String(error).includes("Address already in use");
      if (!taken || options.port !== undefined || tries === BIND_TRIES) throw error;
    }
  }
}

/** One server of an ensemble, which comes back with its data. */
export interface Member {
  readonly name: string;
  readonly port: number;
  /** Where its data is. */
  readonly folder: string;
  readonly running: boolean;
  /** null while it does not run. */
  readonly pid: number | null;
  mode(): Promise<Mode>;
  kill(signal: NodeJS.Signals): void;
  /** Starts it again after a kill and waits until it answers, be it that it serves or that it looks for the others. */
  restart(): Promise<void>;
}

export interface Ensemble {
  readonly url: string;
  readonly members: readonly Member[];
  /** The one that leads now. Waits for an election to end. */
  leader(): Promise<Member>;
  /** Waits until every member that runs serves. */
  settled(): Promise<void>;
  stop(): Promise<void>;
}

export async function startEnsemble(
  size = 3,
  config: readonly string[] = [],
  env: (at: number) => Readonly<Record<string, string>> = () => ({}),
): Promise<Ensemble> {
  const home = mkdtempSync(join(tmpdir(), "holdfast-zookeeper-ensemble-"));
  const ports = await freePorts(size * 3);
  const lines = [...config];
  for (let i = 0; i < size; i += 1)
    lines.push(`server.${i + 1}=127.0.0.1:${ports[size + i]}:${ports[2 * size + i]}`);
  const members = Array.from({ length: size }, (_none, i) => {
    const dataFolder = join(home, String(i + 1));
    mkdirSync(dataFolder);
    writeFileSync(join(dataFolder, "myid"), String(i + 1));
    return new EnsembleMember(`member ${i + 1}`, ports[i] as number, dataFolder, lines, env(i));
  });
  const ensemble = new RunningEnsemble(members, home);
  try {
    await Promise.all(members.map((member) => member.restart()));
    await ensemble.settled();
    return ensemble;
  } catch (error) {
    await ensemble.stop();
    throw error;
  }
}

class EnsembleMember implements Member {
  readonly name: string;
  readonly port: number;
  readonly #dataFolder: string;
  readonly #lines: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  #process: LaunchedProcess | null = null;

  constructor(
    name: string,
    port: number,
    dataFolder: string,
    lines: readonly string[],
    env: Readonly<Record<string, string>>,
  ) {
    this.name = name;
    this.port = port;
    this.#dataFolder = dataFolder;
    this.#lines = lines;
    this.#env = env;
  }

  get folder(): string {
    return this.#dataFolder;
  }

  get running(): boolean {
    return this.#process !== null;
  }

  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  mode(): Promise<Mode> {
    return modeOf(this.port).catch(() => "none");
  }

  kill(signal: NodeJS.Signals): void {
    this.#process?.kill(signal);
  }

  async restart(): Promise<void> {
    await this.stop();
    this.#process = await startMember({
      port: this.port,
      dataFolder: this.#dataFolder,
      lines: this.#lines,
      env: this.#env,
      alone: false,
    });
  }

  async stop(): Promise<void> {
    await this.#process?.stop();
    this.#process = null;
  }
}

class RunningEnsemble implements Ensemble {
  readonly members: readonly EnsembleMember[];
  readonly #home: string;

  constructor(members: readonly EnsembleMember[], home: string) {
    this.members = members;
    this.#home = home;
  }

  get url(): string {
    return `zookeeper://${this.members.map(({ port }) => `127.0.0.1:${port}`).join(",")}`;
  }

  async leader(): Promise<Member> {
    return await until("the ensemble has no leader", async () => {
      const modes = await Promise.all(this.members.map((member) => member.mode()));
      return this.members[modes.indexOf("leader")] ?? null;
    });
  }

  async settled(): Promise<void> {
    await until("the ensemble does not serve", async () => {
      const modes = await Promise.all(this.members.filter((one) => one.running).map((one) => one.mode()));
      const serving = modes.every((mode) => mode === "leader" || mode === "follower");
      return serving && modes.includes("leader") ? true : null;
    });
  }

  async stop(): Promise<void> {
    await Promise.all(this.members.map((member) => member.stop()));
    rmSync(this.#home, { recursive: true, force: true });
  }
}

export type Mode = "leader" | "follower" | "standalone" | "waiting" | "none";

/** What a server says of itself. One that looks for its ensemble answers, but does not serve. */
export async function modeOf(port: number, host = "127.0.0.1"): Promise<Mode> {
  const said = await fourLetters(port, "srvr", host);
  const mode = /^Mode: (leader|follower|standalone)$/m.exec(said)?.[1];
  if (mode !== undefined) return mode as Mode;
  return said.includes("not currently serving") ? "waiting" : "none";
}

async function serves(port: number, host?: string): Promise<boolean> {
  return /^(leader|follower|standalone)$/.test(await modeOf(port, host));
}

interface MemberWish extends ZooKeeperOptions {
  readonly port: number;
  readonly lines: readonly string[];
}

async function startMember(wish: MemberWish): Promise<LaunchedProcess> {
  const { port, lines, config = [], java = [], dataFolder, env, alone = true } = wish;
  const found = await findProgram(zookeeperProgram);
  const program = { ...found, env: { ...found.env, ...env } };
  const classPath = (await jars(program)).join(":");
  return await launch({
    name: "zookeeper",
    program,
    dataFolder,
    startMs: START_MS,
    args(folder) {
      const file = join(folder, "zoo.cfg");
      writeFileSync(file, `${[...settings(port, folder), ...lines, ...config].join("\n")}\n`);
      const sync = dataFolder === undefined ? ["-Dzookeeper.forceSync=no"] : [];
      return [...JAVA_FLAGS, ...sync, ...java, "-cp", classPath, MAIN, file];
    },
    ready: async () => (alone ? serves(port) : (await modeOf(port)) !== "none"),
  });
}

function settings(port: number, folder: string): string[] {
  return [
    ...[`tickTime=${TICK_MS}`, "initLimit=20", "syncLimit=10", "cnxTimeout=1000"],
    ...["minSessionTimeout=400", "maxSessionTimeout=60000", "maxClientCnxns=0"],
    ...[`dataDir=${folder}`, `clientPort=${port}`, "clientPortAddress=127.0.0.1"],
    ...["admin.enableServer=false", "4lw.commands.whitelist=*"],
  ];
}

/** Of each file the one in the first tree that has it. */
async function jars(program: FoundProgram): Promise<string[]> {
  const trees = [...(wantsNewest ? [await unpackedTree(newestServer)] : []), program.tree as string];
  const found = new Map<string, string>();
  for (const tree of trees) {
    const folder = join(tree, "usr/share/java");
    for (const file of await readdir(folder)) if (!found.has(file)) found.set(file, join(folder, file));
  }
  const missing = JARS.filter((name) => !found.has(`${name}.jar`));
  if (missing.length > 0) throw new Error(`${trees.join(", ")}: lacks ${missing.join(", ")}`);
  await access(program.path);
  return JARS.map((name) => found.get(`${name}.jar`) as string);
}

function handle(server: LaunchedProcess): Pick<RunningServer, "pid" | "kill" | "stop"> {
  return { pid: server.pid, kill: (signal) => server.kill(signal), stop: () => server.stop() };
}

/** One of the server's words of four letters, asked on a connection of its own. */
export function fourLetters(port: number, word: string, host = "127.0.0.1"): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = "";
    const socket = connect({ host, port }, () => socket.write(word));
    socket.setTimeout(ANSWER_MS, () => socket.destroy(new Error(`no answer within ${ANSWER_MS} ms`)));
    socket.on("data", (chunk: Buffer) => {
      said += chunk.toString();
    });
    socket.once("error", reject);
    socket.once("close", () => resolve(said));
  });
}

async function until<T>(what: string, look: () => Promise<T | null>): Promise<T> {
  const endMs = performance.now() + START_MS;
  while (performance.now() < endMs) {
    const found = await look();
    if (found !== null) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`${what} after ${START_MS} ms`);
}
