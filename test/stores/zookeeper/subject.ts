// ZooKeeper as the subject of the suite, with a short session so that nobody waits for long. Members are
// killed and come back with what they have on disk.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../../scripts/servers/ports.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { type Ensemble, startEnsemble, startZooKeeper } from "../../../scripts/servers/zookeeper.ts";
import { zookeeper, zookeeperGuarantees } from "../../../src/stores/zookeeper/index.ts";
import type { Server, Subject } from "../../../src/testing/index.ts";
import { countNodes } from "./bare-session.ts";

const SESSION_MS = 2_000;

interface Servers extends Server {
  readonly url: string;
  start(): Promise<void>;
  stop(): Promise<void>;
}

class OneServer implements Servers {
  readonly #dataFolder = mkdtempSync(join(tmpdir(), "holdfast-zookeeper-data-"));
  #port = 0;
  #server: RunningServer | null = null;

  get url(): string {
    return `zookeeper://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    this.#port ||= await freePort();
    this.#server = await startZooKeeper({ own: true, port: this.#port, dataFolder: this.#dataFolder });
  }

  async restart(): Promise<void> {
    this.#server?.kill("SIGKILL");
    await this.#server?.stop();
    await this.start();
  }

  async stop(): Promise<void> {
    await this.#server?.stop();
    rmSync(this.#dataFolder, { recursive: true, force: true });
  }
}

/** A restart is that of all members at once. */
class ThreeServers implements Servers {
  #ensemble: Ensemble | null = null;

  get url(): string {
    return this.#ensemble?.url ?? "zookeeper://127.0.0.1:1";
  }

  async start(): Promise<void> {
    this.#ensemble = await startEnsemble(3);
  }

  async restart(): Promise<void> {
    const members = this.#ensemble?.members ?? [];
    for (const member of members) member.kill("SIGKILL");
    await Promise.all(members.map((member) => member.restart()));
    await this.#ensemble?.settled();
  }

  async stop(): Promise<void> {
    await this.#ensemble?.stop();
  }
}

export function zookeeperSubject(size: 1 | 3 = 1): { readonly store: Subject; readonly server: Server } {
  const server = size === 1 ? new OneServer() : new ThreeServers();
  const url = (): string => `${server.url}/conformance?sessionTimeout=${SESSION_MS}ms`;
  return {
    store: {
      name: size === 1 ? "zookeeper, one server" : "zookeeper, three servers",
      guarantees: zookeeperGuarantees(SESSION_MS),
      create: () => zookeeper({ url: url() }),
      child: () => ({ url: url() }),
      footprint: (namespace) => countNodes(server.url, `/conformance/${namespace}`),
    },
    server,
  };
}
