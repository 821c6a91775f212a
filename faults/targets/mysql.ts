// One MariaDB in either mode, by a user that has no more rights than it needs. What is committed survives the server's death.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createConnection, type RowDataPacket } from "mysql2/promise";
import { APP, mariadbProgram, startMariadb } from "../../scripts/servers/mariadb.ts";
import { findProgram } from "../../scripts/servers/packages.ts";
import { mysqlGuarantees, mysqlRowGuarantees } from "../../src/stores/mysql/index.ts";
import { Disk } from "../disk.ts";
import { type Filling, FULL_DISK, fullDisk } from "./full-disk.ts";
import { deadlockVictim, lockWait } from "./mysql-strangers.ts";
import { OwnedServer } from "./owned-server.ts";
import { serverClock } from "./server-clock.ts";
import type { Target, TargetMaker, Trick } from "./target.ts";

/** Tables and undo share one file, and the log of changes has a folder of its own, as it often has a disk of its own. */
const BINLOG = "binlog";
const roomsIn = (home: string): string[] => [
  ...["--innodb-file-per-table=0", "--innodb-autoextend-increment=1", "--innodb-use-native-aio=0"],
  `--log-bin=${join(home, BINLOG, "bin")}`,
];
/** So many pieces of half a megabyte are more than there is room for. */
const JUNK = 200;

/** Defaults of new sessions that a server may have. Under this mode no assignment sees the ones before it. */
const SESSION_DEFAULTS = ["--sql-mode=ORACLE", "--autocommit=OFF", "--default-time-zone=+11:00"];

const USER = { user: "locker", password: "locker" } as const;

export const mysqlTarget: TargetMaker = (folder, fault) => target("table", folder, fault);
export const mysqlRowTarget: TargetMaker = (folder, fault) => target("row", folder, fault);

async function target(mode: "table" | "row", folder: string, fault: string): Promise<Target> {
  const clock = await serverClock(fault, join(folder, "mariadb.offset"));
  const program = await findProgram(mariadbProgram);
  const disk = fault === FULL_DISK ? await Disk.open() : null;
  const home = join(folder, "mariadb");
  const env = { ...clock.env, ...disk?.environment };
  const args = [...SESSION_DEFAULTS, ...(disk === null ? [] : roomsIn(home))];
  mkdirSync(join(home, BINLOG), { recursive: true });
  const server = await OwnedServer.start({
    name: "mariadb",
    dataFolder: home,
    start: (port, dataFolder) => startMariadb({ own: true, port, dataFolder, program, env, args }),
  });
  const say = (sql: string): Promise<RowDataPacket[]> => tell(server.port, sql);
  await say(`CREATE USER ${USER.user}@'127.0.0.1' IDENTIFIED BY '${USER.password}'`);
  await say(`GRANT ALL ON ${APP.database}.* TO ${USER.user}@'127.0.0.1'`);
  // Wiping is another server: the account would be gone with it.
  Object.defineProperty(server, "wipe", { value: undefined });
  const nowMs = async (): Promise<number> =>
    Number((await say("SELECT UNIX_TIMESTAMP(NOW(6)) AS s"))[0]?.["s"]) * 1_000;
  const urlOf = (port: number): string =>
    `mysql://${USER.user}:${USER.password}@127.0.0.1:${port}/${APP.database}?mode=${mode}`;
  return {
    url: urlOf(server.port),
    guarantees: mode === "row" ? mysqlRowGuarantees : mysqlGuarantees,
    servers: [server],
    clocks: [{ name: server.name, set: (ms) => clock.set(ms), nowMs }],
    survives: mode === "row" ? [] : ["server restart"],
    through: ([port]) => urlOf(port as number),
    listens: /GET_LOCK\(\?, (IF|20)/,
    tricks: {
      "session-kill": sessionKill(say, mode),
      "read-only": readOnly(say),
      "lock-wait": lockWait(server.port, say, mode),
      ...(mode === "row" ? {} : { "deadlock-victim": deadlockVictim(server.port) }),
      [FULL_DISK]: fullDisk(disk, fillings(server, home, say)),
    },
    version: `MariaDB ${String((await say("SELECT VERSION() AS v"))[0]?.["v"])}`,
    async stop() {
      await server.stop();
      disk?.close();
    },
  };
}

type Say = (sql: string) => Promise<RowDataPacket[]>;

/** Some of the clients' sessions are ended by an operator. In row mode the locks go with them. */
const sessionKill = (say: Say, mode: "table" | "row"): Trick => ({
  everyMs: [200, 800],
  forMs: [0, 0],
  ...(mode === "row" ? { survives: "session ended by the server" } : {}),
  begin: async () => {
    const rows = await say(
      `SELECT id FROM information_schema.processlist WHERE user = '${USER.user}' ORDER BY RAND() LIMIT 3`,
    );
    for (const row of rows) await say(`KILL ${Number(row["id"])}`).catch(() => {});
  },
  end: () => Promise.resolve(),
});

const readOnly = (say: Say): Trick => ({
  everyMs: [500, 1_500],
  forMs: [100, 1_500],
  begin: async () => void (await say("SET GLOBAL read_only = 1")),
  end: async () => void (await say("SET GLOBAL read_only = 0")),
});

/**
 * Somebody's table takes what is left of the tablespace: statements are refused. Or the log of changes cannot grow: whoever commits
 * waits, for up to a minute longer than the disk is full, so that the operator starts the server anew.
 */
function fillings(server: OwnedServer, home: string, say: Say): readonly Filling[] {
  return [
    {
      folder: join(home, "data"),
      before: () => say("CREATE TABLE IF NOT EXISTS junk (id INT AUTO_INCREMENT PRIMARY KEY, much LONGBLOB)"),
      async provoke() {
        for (let i = 0; i < JUNK; i += 1) await say("INSERT INTO junk (much) VALUES (REPEAT('x', 500000))");
      },
      async mend() {
        await server.revive(() => say("SELECT 1"));
        await say("DROP TABLE junk");
      },
    },
    { folder: join(home, BINLOG), mend: () => server.kill() },
  ];
}

async function tell(port: number, sql: string): Promise<RowDataPacket[]> {
  const connection = await createConnection({ host: "127.0.0.1", port, ...APP });
  try {
    const [rows] = await connection.query<RowDataPacket[]>(sql);
    return Array.isArray(rows) ? rows : [];
  } finally {
    connection.destroy();
  }
}
