// A server of a run that comes back on the same port after it was killed, with its data or without.

import { mkdirSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../scripts/servers/ports.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import type { FaultyServer } from "./target.ts";

const REVIVE_MS = 20_000;
const LOOK_EVERY_MS = 50;

export interface OwnedServerOptions {
  readonly name: string;
  /** Where its data is, over every restart. */
  readonly dataFolder: string;
  start(port: number, dataFolder: string): Promise<RunningServer>;
}

export class OwnedServer implements FaultyServer {
  readonly name: string;
  readonly port: number;
  readonly #options: OwnedServerOptions;
  #running: RunningServer | null = null;

  private constructor(options: OwnedServerOptions, port: number) {
    this.name = options.name;
    this.port = port;
    this.#options = options;
  }

  static async start(options: OwnedServerOptions): Promise<OwnedServer> {
    const server = new OwnedServer(options, await freePort());
    await server.#start();
    return server;
  }

  async kill(): Promise<void> {
    await this.#end();
    await this.#start();
  }

  /** Started again if it has ended itself, or does so before it answers. */
  async revive(answers: () => Promise<unknown> = () => reached(this.port)): Promise<void> {
    const endMs = performance.now() + REVIVE_MS;
    while (performance.now() < endMs) {
      if (!this.#alive) break;
      const well = await answers().then(
        () => true,
        () => false,
      );
      if (well) return;
      await sleep(LOOK_EVERY_MS);
    }
    await this.kill();
  }

  async wipe(): Promise<void> {
    await this.#end();
    rmSync(this.#options.dataFolder, { recursive: true, force: true });
    await this.#start();
  }

  freeze(): void {
    this.#running?.kill("SIGSTOP");
  }

  thaw(): void {
    this.#running?.kill("SIGCONT");
  }

  down(): Promise<void> {
    return this.#end();
  }

  up(): Promise<void> {
    return this.#start();
  }

  async stop(): Promise<void> {
    await this.#running?.stop();
  }

  async #start(): Promise<void> {
    mkdirSync(this.#options.dataFolder, { recursive: true });
    this.#running = await this.#options.start(this.port, this.#options.dataFolder);
  }

  get #alive(): boolean {
    try {
      return process.kill(this.#running?.pid ?? 0, 0);
    } catch {
      return false;
    }
  }

  async #end(): Promise<void> {
    this.#running?.kill("SIGKILL");
    await this.#running?.stop();
  }
}

function reached(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port });
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.destroy();
      resolve();
    });
  });
}
