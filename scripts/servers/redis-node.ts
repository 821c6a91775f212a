// One node of a larger Redis: it keeps its port and its data, so that it can be killed and started again, and it can be asked.

import { connect } from "node:net";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { FoundProgram } from "./packages.ts";
import type { RunningServer } from "./process.ts";
import { startRedis } from "./redis.ts";

const ASK_MS = 5_000;
const POLL_MS = 20;
const AGREE_MS = 120_000;
/** What a PING after the command is to give back. */
const END = "$7\r\nthe-end\r\n";

export interface RedisNodeOptions {
  readonly port: number;
  readonly args: readonly string[];
  readonly program: FoundProgram;
}

export class RedisNode {
  readonly port: number;
  readonly #options: RedisNodeOptions;
  readonly #dataFolder: string;
  #server: RunningServer | null = null;

  private constructor(options: RedisNodeOptions, dataFolder: string) {
    this.port = options.port;
    this.#options = options;
    this.#dataFolder = dataFolder;
  }

  static async start(options: RedisNodeOptions): Promise<RedisNode> {
    const node = new RedisNode(options, await mkdtemp(join(tmpdir(), "holdfast-redis-data-")));
    try {
      await node.start();
    } catch (error) {
      await node.stop();
      throw error;
    }
    return node;
  }

  get pid(): number | null {
    return this.#server?.pid ?? null;
  }

  get name(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Again, after it was killed. Resolves when it answers. */
  async start(): Promise<void> {
    const { port, args, program } = this.#options;
    this.#server = await startRedis({ own: true, port, dataFolder: this.#dataFolder, args, program });
  }

  /** SIGSTOP, SIGCONT and the like. */
  signal(signal: NodeJS.Signals): void {
    this.#server?.kill(signal);
  }

  /** kill -9. Resolves when it is gone; its data stays. */
  async kill(): Promise<void> {
    this.#server?.kill("SIGKILL");
    await this.#server?.stop();
  }

  ask(...words: string[]): Promise<string> {
    return askRedis(this.port, ...words);
  }

  async stop(): Promise<void> {
    await this.#server?.stop();
    await rm(this.#dataFolder, { recursive: true, force: true });
  }
}

/** One command on a connection of its own; the reply as the server wrote it. Rejects on an error reply. */
export function askRedis(port: number, ...words: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
    const socket = connect({ host: "127.0.0.1", port }, () => {
      socket.write(`*${words.length}\r\n${parts.join("")}*2\r\n$4\r\nPING\r\n${END}`);
    });
    let text = "";
    socket.setTimeout(ASK_MS, () => socket.destroy(new Error(`no answer within ${ASK_MS} ms`)));
    socket.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      if (text.endsWith(END)) socket.destroy();
    });
    socket.once("error", reject);
    socket.once("close", () => {
      const reply = text.slice(0, -END.length);
      if (!text.endsWith(END)) reject(new Error("it hung up"));
      else if (reply.startsWith("-")) reject(new Error(reply.slice(1).trimEnd()));
      else resolve(reply);
    });
  });
}

/** Waits until all of them have come to agree on something. */
export async function agreed(what: string, look: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + AGREE_MS;
  while (!(await look().catch(() => false))) {
    if (performance.now() > endMs) throw new Error(`${what}: it did not happen within ${AGREE_MS} ms`);
    await sleep(POLL_MS);
  }
}

/** All of them, or none: what was started is stopped when one fails. */
export async function startAll(options: readonly RedisNodeOptions[]): Promise<RedisNode[]> {
  const results = await Promise.allSettled(options.map((one) => RedisNode.start(one)));
  const nodes = results.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const failed = results.find((one) => one.status === "rejected");
  if (failed === undefined) return nodes;
  await Promise.all(nodes.map((node) => node.stop()));
  throw failed.reason;
}

/** Others may take a port between finding it free and binding it. */
export async function againWhenTaken<T>(start: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await start();
    } catch (error) {
      if (!String(error).includes("Address already in use") || tries === 5) throw error;
    }
  }
}
