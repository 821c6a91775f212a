// A server of a run that comes back on the same port after it was killed, with its data or without.

import { mkdirSync, rmSync } from "node:fs";
import { freePort } from "../../scripts/servers/ports.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import type { FaultyServer } from "./target.ts";

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

  async stop(): Promise<void> {
    await this.#running?.stop();
  }

  async #start(): Promise<void> {
    mkdirSync(this.#options.dataFolder, { recursive: true });
    this.#running = await this.#options.start(this.port, this.#options.dataFolder);
  }

  async #end(): Promise<void> {
    this.#running?.kill("SIGKILL");
    await this.#running?.stop();
  }
}
