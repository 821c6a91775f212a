// MySQL for tests, of the newest version that Debian has: MariaDB stands in for it everywhere else. It comes
// from another suite than this system's, so it is unpacked with all of its libraries. Durability as in
// mariadb.ts.

import { execFile } from "node:child_process";
import { cpSync, existsSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { answers, INIT, type MariadbOptions, urlOn } from "./mariadb.ts";
import { type FoundProgram, findProgram, type Program, publish } from "./packages.ts";
import { freePort } from "./ports.ts";
import { launch, type RunningServer } from "./process.ts";

export type MysqlOptions = Pick<MariadbOptions, "port" | "dataFolder" | "serverId" | "args" | "env">;

export const mysqlProgram: Program = {
  name: "mysqld",
  packages: ["mysql-server-core"],
  suite: "sid",
  advice: "it comes from Debian's suite sid, and apt cannot reach that suite from here",
};

const INITIALIZE_MS = 180_000;
const LOG_SIZE = "--innodb-redo-log-capacity=8M";
const QUICK = [
  "--innodb-flush-log-at-trx-commit=2",
  "--innodb-flush-method=nosync",
  "--innodb-doublewrite=0",
  "--sync-binlog=0",
  "--innodb-buffer-pool-size=32M",
  LOG_SIZE,
  "--skip-name-resolve",
  "--performance-schema=OFF",
  "--mysqlx=OFF",
  "--secure-file-priv=NULL",
  "--max-connections=500",
];

export async function startMysql(options: MysqlOptions = {}): Promise<RunningServer> {
  const program = await findProgram(mysqlProgram);
  const template = await templateOf(program);
  const port = options.port ?? (await freePort());
  const server = await launch({
    name: "mysql",
    program: { ...program, env: { ...program.env, ...options.env } },
    dataFolder: options.dataFolder,
    args: (dataFolder) => {
      const data = join(dataFolder, "data");
      if (!existsSync(data)) cpSync(template, data, { recursive: true });
      writeFileSync(join(dataFolder, "init.sql"), INIT);
      return [
        ...[...common(program), `--datadir=${data}`, `--port=${port}`, "--bind-address=127.0.0.1"],
        ...[`--socket=${join(dataFolder, "s.sock")}`, `--pid-file=${join(dataFolder, "pid")}`],
        ...[`--init-file=${join(dataFolder, "init.sql")}`, ...QUICK],
        ...["--log-bin=bin", `--server-id=${options.serverId ?? 1}`],
        ...(options.args ?? []),
      ];
    },
    ready: () => answers("127.0.0.1", port),
  });
  return {
    url: urlOn(port),
    port,
    pid: server.pid,
    kill: (signal) => server.kill(signal),
    stop: () => server.stop(),
  };
}

function common({ tree }: FoundProgram): string[] {
  const base = join(tree as string, "usr");
  const user = process.getuid?.() === 0 ? ["--user=root"] : [];
  return ["--no-defaults", `--basedir=${base}`, `--lc-messages-dir=${join(base, "share/mysql")}`, ...user];
}

/** The data of a server that nobody has used. Made once, beside the program. */
async function templateOf(program: FoundProgram): Promise<string> {
  const template = `${program.tree}.template`;
  if (existsSync(template)) return template;
  await mkdir(dirname(template), { recursive: true });
  const work = await mkdtemp(join(dirname(template), `.${basename(template)}-`));
  try {
    const data = join(work, "data");
    const args = [...common(program), "--initialize-insecure", `--datadir=${data}`, LOG_SIZE];
    const all = [...(program.args ?? []), ...args, "--innodb-flush-method=nosync"];
    await promisify(execFile)(program.path, all, { timeout: INITIALIZE_MS });
    // The number by which a server is known: each server makes one of its own.
    await rm(join(data, "auto.cnf"), { force: true });
    await publish(data, template);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return template;
}
