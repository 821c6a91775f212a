// The dashboard in a real Chromium over a server of this process.

import { existsSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type Browser, chromium } from "playwright-core";
import { dashboard, type DashboardOptions, nodeHandler } from "../../src/dashboard/index.ts";
import type { Locks } from "../../src/index.ts";

export const TOKEN = "a token of the tests";

export class Served {
  readonly url: string;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  }

  static async start(locks: Locks, options: DashboardOptions = {}): Promise<Served> {
    const server = createServer(nodeHandler(dashboard(locks, options)));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Served(server);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

const PROGRAMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export async function startChromium(): Promise<Browser> {
  const { HOLDFAST_TEST_CHROMIUM: named } = process.env;
  const program = named ?? PROGRAMS.find((path) => existsSync(path));
  if (program === undefined)
    throw new Error(
      "the tests of the dashboard need Chromium: apt-get install chromium, or HOLDFAST_TEST_CHROMIUM",
    );
  return chromium.launch({ executablePath: program, args: FLAGS });
}
