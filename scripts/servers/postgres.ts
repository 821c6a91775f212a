// PostgreSQL for tests: one server on a free loopback port, user `postgres` without a password. It refuses to run as root, so
// root starts it as another user. The cluster is made once per version and user, and copied for every server. Nothing is forced
// to disk, and yet everything survives a kill -9: what was committed is in the kernel's hands.

import { execFile, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { chmod, chown, copyFile, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { dirname, join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { givenServer } from "./given.ts";
import {
  cacheFolder,
  type FoundProgram,
  findProgram,
  type Program,
  publish,
  wantsNewest,
} from "./packages.ts";
import { freePort } from "./ports.ts";
import { launch, type LaunchedProcess, type RunningServer, type ServerUser } from "./process.ts";
import type { ServerTls } from "./tls.ts";

const run = promisify(execFile);

export interface PostgresOptions {
  /** Do not take the server that the environment names: this one will be killed. */
  readonly own?: boolean;
  /** Default a free one. */
  readonly port?: number;
  /** Keeps the data for a restart; default a temporary folder. */
  readonly dataFolder?: string;
  /** Settings, for example `{ default_transaction_read_only: "on" }`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Default from the system or unpacked. */
  readonly program?: FoundProgram;
  /** A streaming replica of the server on this port. */
  readonly replicaOf?: number;
  /** TLS for clients that ask for it. */
  readonly tls?: ServerTls;
}

/** The newest version that Debian has. */
const newestPostgres: Program = {
  name: "postgres",
  packages: ["postgresql-18"],
  suite: "sid",
  folders: ["usr/lib/postgresql/18/bin"],
  advice: "it comes from Debian's suite sid, and apt cannot reach that suite from here",
};

const VERSIONS = [18, 17, 16, 15, 14];
const SYSTEM = "/usr/lib/postgresql";

export const postgresProgram: Program = {
  name: "postgres",
  packages: ["postgresql"],
  folders: VERSIONS.map((version) => `usr/lib/postgresql/${version}/bin`),
  advice:
    "install PostgreSQL 14 or later (package postgresql), or name a running one in HOLDFAST_TEST_POSTGRES=postgres://user@host:port/db",
};

const START_TRIES = 20;
const ANSWER_MS = 5_000;
const TERM_MS = 5_000;
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

export async function startPostgres(options: PostgresOptions = {}): Promise<RunningServer> {
  if (options.own !== true) {
    const given = await givenServer({
      name: "PostgreSQL",
      variable: "HOLDFAST_TEST_POSTGRES",
      defaultPort: 5432,
      answers,
    });
    if (given !== null) return given;
  }
  const program = options.program ?? (await findPostgres());
  const user = serverUser();
  for (let tries = 1; ; tries += 1) {
    const port = options.port ?? (await freePort());
    try {
      return await startOn(port, program, user, options);
    } catch (error) {
      // Somebody took the port, or what is left of a killed server has not quite gone.
      const again = /Address already in use|still in use|is another postmaster|lock file/.test(String(error));
      if (!again || tries === START_TRIES) throw error;
      await sleep(100);
    }
  }
}

async function startOn(
  port: number,
  program: FoundProgram,
  user: ServerUser | undefined,
  options: PostgresOptions,
): Promise<RunningServer> {
  const settings = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    fsync: "off",
    full_page_writes: "off",
    shared_buffers: "16MB",
    max_connections: "200",
    max_wal_senders: "4",
    hot_standby: "on",
    timezone: "GMT",
    log_timezone: "GMT",
    ...(options.tls === undefined
      ? {}
      : { ssl: "on", ssl_cert_file: "tls.pem", ssl_key_file: "tls-key.pem" }),
    ...options.settings,
  };
  const server = await launch({
    name: "postgres",
    program,
    user,
    dataFolder: options.dataFolder,
    async prepare(folder) {
      await fill(folder, program, user, options.replicaOf);
      if (options.tls !== undefined) await copyTls(folder, options.tls, user);
    },
    args: (folder) => [
      ...["-D", folder, "-p", String(port)],
      ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
    ],
    ready: () => answers("127.0.0.1", port, options.tls !== undefined),
  });
  return running(server, port);
}

function running(server: LaunchedProcess, port: number): RunningServer {
  const kill = (signal: NodeJS.Signals): void => {
    // Every connection has a process of its own: all of them stop and go on together.
    if (signal === "SIGSTOP" || signal === "SIGCONT")
      for (const pid of childrenOf(server.pid)) send(pid, signal);
    server.kill(signal);
  };
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    port,
    pid: server.pid,
    kill,
    async stop() {
      kill("SIGCONT");
      // "Fast" shutdown: SIGTERM would wait for every client to leave.
      server.kill("SIGINT");
      const endMs = performance.now() + TERM_MS;
      while (alive(server.pid) && performance.now() < endMs) await sleep(10);
      await server.stop();
    },
  };
}

/** A data folder that is empty gets a copy of the template, or of the primary. */
async function fill(
  folder: string,
  program: FoundProgram,
  user: ServerUser | undefined,
  replicaOf: number | undefined,
): Promise<void> {
  if ((await readdir(folder)).length > 0) return;
  await chmod(folder, 0o700);
  if (replicaOf === undefined) {
    await run("cp", ["-a", `${await template(program, user)}/.`, folder]);
    return;
  }
  const args = ["-h", "127.0.0.1", "-p", String(replicaOf), "-U", "postgres", "-D", folder];
  await tool(program, "pg_basebackup", [...args, "-R", "-X", "stream", "-c", "fast", "--no-sync"], user);
}

/** The server wants a key that nobody but its own user can read. */
async function copyTls(
  folder: string,
  { cert, key }: ServerTls,
  user: ServerUser | undefined,
): Promise<void> {
  for (const [from, name] of [
    [cert, "tls.pem"],
    [key, "tls-key.pem"],
  ] as const) {
    const path = join(folder, name);
    await copyFile(from, path);
    await chmod(path, 0o600);
    if (user !== undefined) await chown(path, user.uid, user.gid);
  }
}

/** A cluster that was never started, made once. */
async function template(program: FoundProgram, user: ServerUser | undefined): Promise<string> {
  const cache = readableCache();
  const version = (await tool(program, "postgres", ["--version"], user)).trim().replaceAll(/[^\w.]+/g, "-");
  const folder = join(cache, `template-${version}-${user?.uid ?? process.getuid?.() ?? 0}`);
  if (existsSync(join(folder, "PG_VERSION"))) return folder;
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(join(cache, ".making-"));
  if (user !== undefined) await chown(work, user.uid, user.gid);
  const made = join(work, "cluster");
  const args = ["-D", made, "-U", "postgres", "--auth=trust", "--no-sync", "--no-instructions"];
  await tool(program, "initdb", [...args, "-E", "UTF8", "--locale=C"], user);
  await publish(made, folder);
  await rm(work, { recursive: true, force: true });
  return folder;
}

async function tool(
  program: FoundProgram,
  name: string,
  args: readonly string[],
  user: ServerUser | undefined,
): Promise<string> {
  const env = { ...process.env, ...program.env, TZ: "GMT" };
  const { stdout } = await run(join(dirname(program.path), name), args, { cwd: "/", env, ...user });
  return stdout;
}

/** Debian keeps the programs of a server out of PATH. */
export async function findPostgres(): Promise<FoundProgram> {
  if (wantsNewest) return await withOwnLibc(await findProgram(newestPostgres, readableCache()));
  for (const version of VERSIONS) {
    const path = join(SYSTEM, String(version), "bin", "postgres");
    if (existsSync(path)) return { path, tree: null, env: {} };
  }
  return findProgram(postgresProgram, readableCache());
}

/**
 * Shell scripts that start the programs with the loader of their own tree: initdb starts other programs of
 * its folder by their path. PostgreSQL finds its files from where it was started, so the scripts lie in a
 * tree of links.
 */
async function withOwnLibc(program: FoundProgram): Promise<FoundProgram> {
  const tree = program.tree as string;
  const scripts = `${tree}.scripts`;
  const bin = relative(tree, dirname(program.args?.at(-1) as string));
  const found: FoundProgram = { path: join(scripts, bin, "postgres"), tree, env: {} };
  if (existsSync(found.path)) return found;
  const work = await mkdtemp(`${tree}.making-`);
  await mkdir(join(work, bin), { recursive: true });
  await symlink(join(tree, "usr/share"), join(work, "usr/share"));
  await symlink(join(tree, dirname(bin), "lib"), join(work, dirname(bin), "lib"));
  const [loader, flag, libraries] = [program.path, ...(program.args as readonly [string, string])];
  for (const name of ["postgres", "initdb", "pg_basebackup"]) {
    const own = join(scripts, bin, name);
    const start = `exec ${loader} ${flag} ${libraries} --argv0 ${own} ${join(tree, bin, name)} "$@"`;
    await writeFile(join(work, bin, name), `#!/bin/sh\n${start}\n`, { mode: 0o755 });
  }
  await chmod(work, 0o755);
  await publish(work, scripts);
  await rm(work, { recursive: true, force: true });
  return found;
}

/** Root's own cache cannot be read by the user that the server runs as. */
export function readableCache(): string {
  return process.getuid?.() === 0 ? "/var/cache/holdfast/servers" : cacheFolder();
}

/** undefined: as ourselves. */
export function serverUser(): ServerUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ["postgres", "nobody"]) {
    const [uid, gid] = ["-u", "-g"].map((what) => spawnSync("id", [what, name], { encoding: "utf8" }));
    if (uid?.status === 0 && gid?.status === 0) return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  }
  throw new Error("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody");
}

function childrenOf(parent: number): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => parentOf(name) === parent)
    .map(Number);
}

function parentOf(pid: string): number | null {
  try {
    // The name of the program stands in brackets and may hold anything.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return Number(fields[1]);
  } catch {
    return null;
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has just gone.
  }
}

function alive(pid: number): boolean {
  return parentOf(String(pid)) !== null;
}

/** A server that starts up, or shuts down, refuses clients with an error: only one that asks who we are is ready. */
function answers(host: string, port: number, tls = false): Promise<boolean> {
  return new Promise((resolve, reject) => {
    // One that speaks TLS would take it for asked for, and answers in clear text too.
    let asked = tls;
    const socket = connect({ host, port }, () => socket.write(tls ? startup() : SSL_REQUEST));
    socket.setTimeout(ANSWER_MS, () => socket.destroy(new Error(`no answer within ${ANSWER_MS} ms`)));
    socket.on("data", (reply: Buffer) => {
      if (!asked) {
        asked = true;
        socket.write(startup());
        return;
      }
      socket.destroy();
      // "R" asks for a password or says that none is needed; "E" is an error, which names its kind.
      const text = reply.toString("latin1");
      resolve(text.startsWith("R") || (text.startsWith("E") && !text.includes("C57P03")));
    });
    socket.once("error", reject);
    socket.once("end", () => {
      socket.destroy();
      reject(new Error("it hung up"));
    });
  });
}

function startup(): Buffer {
  const body = Buffer.from("\0\x03\0\0user\0postgres\0database\0postgres\0\0", "latin1");
  const length = Buffer.alloc(4);
  length.writeInt32BE(body.length + 4);
  return Buffer.concat([length, body]);
}
