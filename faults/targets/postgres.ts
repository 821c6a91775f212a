// One PostgreSQL primary, with leases in a table or with session locks. It forces nothing to disk, which only a crash of the
// machine could tell from one that does.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { findPostgres, startPostgres } from "../../scripts/servers/postgres.ts";
import { advisoryGuarantees, postgresGuarantees } from "../../src/stores/postgres/index.ts";
import { Disk } from "../disk.ts";
import { type Filling, FULL_DISK, fullDisk } from "./full-disk.ts";
import { OwnedServer } from "./owned-server.ts";
import { deadlockVictim, lockWait } from "./postgres-strangers.ts";
import { serverClock } from "./server-clock.ts";
import type { Target, TargetMaker, Trick } from "./target.ts";

type Mode = "table" | "advisory";

/** More than it keeps ready for what is to come. */
const SEGMENTS = 8;
const FEW_SEGMENTS = { min_wal_size: "32MB" };

export const postgresTarget: TargetMaker = (_folder, fault) => made("table", fault);
export const advisoryTarget: TargetMaker = (_folder, fault) => made("advisory", fault);

async function made(mode: Mode, fault: string): Promise<Target> {
  // Not inside of the run's own folder, which the user that the server runs as may not enter.
  const dataFolder = mkdtempSync(join(tmpdir(), "holdfast-postgres-data-"));
  const clock = await serverClock(fault, `${dataFolder}.offset`);
  const disk = fault === FULL_DISK ? await Disk.open() : null;
  const found = await findPostgres();
  const program = { ...found, env: { ...found.env, ...clock.env, ...disk?.environment } };
  const settings = disk === null ? {} : FEW_SEGMENTS;
  const server = await OwnedServer.start({
    name: "postgres",
    dataFolder,
    start: (port) => startPostgres({ own: true, port, dataFolder, program, settings }),
  });
  const say = (text: string): Promise<string> => tell(server.port, text);
  const nowMs = async (): Promise<number> =>
    1_000 * Number(await say("SELECT extract(epoch FROM clock_timestamp())"));
  return {
    url: urlOf(server.port, mode),
    guarantees: mode === "table" ? postgresGuarantees : advisoryGuarantees,
    servers: [server],
    clocks: [{ name: server.name, set: (ms) => clock.set(ms), nowMs }],
    ...(mode === "table" ? { survives: ["server restart"], listens: /LISTEN/ } : {}),
    through: ([port]) => urlOf(port as number, mode),
    tricks: {
      "sessions-ended": sessionsEnded(say, mode),
      "read-only": readOnly(say),
      "lock-wait": lockWait(server.port, say, mode),
      ...(mode === "table" ? { "deadlock-victim": deadlockVictim(server.port, say) } : {}),
      [FULL_DISK]: fullDisk(disk, fillings(server, dataFolder, say)),
    },
    version: `PostgreSQL ${(await say("SHOW server_version")).split(" ")[0]}`,
    async stop() {
      await server.stop();
      disk?.close();
      rmSync(dataFolder, { recursive: true, force: true });
      rmSync(`${dataFolder}.offset`, { force: true });
    },
  };
}

function urlOf(port: number, mode: Mode): string {
  return `postgres://postgres@127.0.0.1:${port}/postgres${mode === "table" ? "" : "?mode=advisory"}`;
}

type Say = (text: string) => Promise<string>;

/** An operator, or a failing network device, ends every session. With it go session locks, and leases in a table stay. */
const sessionsEnded = (say: Say, mode: Mode): Trick => ({
  everyMs: [300, 1_500],
  forMs: [0, 0],
  ...(mode === "advisory" ? { survives: "sessions ended" } : {}),
  begin: async () =>
    void (await say(
      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
    )),
  end: () => Promise.resolve(),
});

/** As a primary that is about to become a standby. What is held stays held, and can be neither renewed nor released meanwhile. */
const readOnly = (say: Say): Trick => {
  const set = async (to: "on" | "off"): Promise<void> => {
    await say(`ALTER SYSTEM SET default_transaction_read_only = ${to}`);
    await say("SELECT pg_reload_conf()");
  };
  return {
    everyMs: [500, 1_500],
    forMs: [100, 1_500],
    begin: () => set("on"),
    end: () => set("off"),
  };
};

/**
 * Somebody leaves a transaction open, so that tables must grow with every change: statements are refused. Or the log needs a
 * new file: the server ends itself, and cannot start before there is room.
 */
function fillings(server: OwnedServer, folder: string, say: Say): readonly Filling[] {
  const revive = (): Promise<void> => server.revive(() => say("SELECT 1"));
  let open: Client | null = null;
  return [
    {
      folder,
      async before() {
        open = await opened(server.port);
        await open.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
      },
      async mend() {
        await open?.end().catch(() => {});
        await revive();
      },
    },
    {
      folder,
      async provoke() {
        for (let i = 0; i < SEGMENTS; i += 1)
          await say("SELECT pg_logical_emit_message(false, 'faults', 'more'); SELECT pg_switch_wal()");
      },
      mend: revive,
    },
  ];
}

async function opened(port: number): Promise<Client> {
  const client = new Client({ connectionString: urlOf(port, "table") });
  // The call itself rejects.
  client.on("error", () => {});
  await client.connect();
  return client;
}

async function tell(port: number, text: string): Promise<string> {
  const client = await opened(port);
  try {
    const answer: unknown = await client.query(text);
    const last = (Array.isArray(answer) ? answer.at(-1) : answer) as { rows: Record<string, string>[] };
    return Object.values(last.rows[0] ?? {})[0] ?? "";
  } finally {
    await client.end();
  }
}
