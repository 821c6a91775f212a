// Two MariaDB servers that replicate both ways, each of which can be killed, frozen and started again with its data.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createConnection, type RowDataPacket } from "mysql2/promise";
import { APP, type MariadbOptions, startMariadb, urlOn } from "./mariadb.ts";
import { freePorts } from "./ports.ts";
import type { RunningServer } from "./process.ts";

export type MariadbArgs = Pick<MariadbOptions, "args" | "env"> & {
  /** Default `startMariadb`. */
  readonly start?: (options: MariadbOptions) => Promise<RunningServer>;
};

const LINKED_MS = 120_000;

/** One server on a port and a folder of its own, which outlive its process. */
export class MariadbNode {
  readonly port: number;
  readonly #dataFolder: string;
  readonly #serverId: number;
  readonly #options: MariadbArgs;
  #server: RunningServer | null = null;

  constructor(port: number, dataFolder: string, serverId: number, options: MariadbArgs) {
    this.port = port;
    this.#dataFolder = dataFolder;
    this.#serverId = serverId;
    this.#options = options;
  }

  get url(): string {
    return urlOn(this.port);
  }

  get pid(): number {
    return this.#server?.pid as number;
  }

  async start(): Promise<void> {
    const { port } = this;
    const folder = { own: true, port, dataFolder: this.#dataFolder, serverId: this.#serverId };
    const { start = startMariadb, args, env } = this.#options;
    this.#server = await start({ ...folder, ...(args && { args }), ...(env && { env }) });
  }

  /** kill -9. Resolves when it is gone. */
  async kill(): Promise<void> {
    this.#server?.kill("SIGKILL");
    await this.#server?.stop();
    this.#server = null;
  }

  signal(signal: NodeJS.Signals): void {
    this.#server?.kill(signal);
  }

  async query(sql: string): Promise<RowDataPacket[]> {
    const { port } = this;
    const connection = await createConnection({ host: "127.0.0.1", port, ...APP, multipleStatements: true });
    try {
      const [rows] = await connection.query<RowDataPacket[]>(sql);
      return rows;
    } finally {
      connection.destroy();
    }
  }

  /** Copies everything that `other` writes from now on. */
  async follow(other: MariadbNode): Promise<void> {
    await this.query(
      `CHANGE MASTER TO master_host = '127.0.0.1', master_port = ${other.port}, master_user = '${APP.user}',
         master_password = '${APP.password}', master_use_gtid = slave_pos, master_connect_retry = 1;
       START SLAVE`,
    );
  }

  /** Whether both of its replicating threads run; else what is in their way. */
  async following(): Promise<true | string> {
    const [status] = await this.query("SHOW SLAVE STATUS");
    if (status?.["Slave_IO_Running"] === "Yes" && status["Slave_SQL_Running"] === "Yes") return true;
    return `${String(status?.["Last_IO_Error"])} ${String(status?.["Last_SQL_Error"])}`;
  }

  async stop(): Promise<void> {
    await this.#server?.stop();
    await rm(this.#dataFolder, { recursive: true, force: true });
  }
}

export class MariadbPair {
  readonly nodes: readonly [MariadbNode, MariadbNode];

  private constructor(nodes: readonly [MariadbNode, MariadbNode]) {
    this.nodes = nodes;
  }

  /** `args` for each of the two. */
  static async start(options: readonly [MariadbArgs, MariadbArgs] = [{}, {}]): Promise<MariadbPair> {
    const ports = await freePorts(2);
    const made = await Promise.all(
      [0, 1].map(async (at) => {
        const folder = await mkdtemp(join(tmpdir(), `holdfast-mariadb-pair-`));
        return new MariadbNode(ports[at] as number, folder, at + 1, options[at] as MariadbArgs);
      }),
    );
    const pair = new MariadbPair(made as unknown as readonly [MariadbNode, MariadbNode]);
    try {
      await Promise.all(pair.nodes.map((node) => node.start()));
      const [one, two] = pair.nodes;
      await Promise.all([one.follow(two), two.follow(one)]);
      await pair.linked();
      return pair;
    } catch (error) {
      await pair.stop();
      throw error;
    }
  }

  /** One URL that names both, the first one first. */
  get url(): string {
    const hosts = this.nodes.map(({ port }) => `127.0.0.1:${port}`).join(",");
    return `mysql://${APP.user}:${APP.password}@${hosts}/${APP.database}`;
  }

  /** Waits until each follows the other. */
  async linked(): Promise<void> {
    const deadline = performance.now() + LINKED_MS;
    for (;;) {
      const states = await Promise.all(this.nodes.map((node) => node.following()));
      if (states.every((state) => state === true)) return;
      if (performance.now() > deadline) throw new Error(`the pair does not replicate: ${states.join(", ")}`);
      await sleep(20);
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
  }
}
