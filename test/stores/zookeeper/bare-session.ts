// The tree of a ZooKeeper as it is, read past the store.

import { nodeSystem } from "../../../src/system/node.ts";
import { getChildren } from "../../../src/stores/zookeeper/wire/ops.ts";
import type { Connection } from "../../../src/stores/zookeeper/wire/connection.ts";
import { Session } from "../../../src/stores/zookeeper/wire/session.ts";

export interface Bare {
  readonly session: Session;
  readonly connection: Connection;
  close(): Promise<void>;
}

/** A session of its own, without a store. */
export async function bareSession(url: string, timeoutMs = 5_000): Promise<Bare> {
  const hosts = /^zookeeper:\/\/([^/]*)/.exec(url)?.[1]?.split(",") ?? [];
  const servers = hosts.map((text) => {
    const [host = "", port = ""] = text.split(":");
    return { host, port: Number(port) };
  });
  const quiet = { started: () => {}, expired: () => {}, event: () => {} };
  const session = new Session({ servers, timeoutMs, tls: null, digest: null, system: nodeSystem }, quiet);
  const connection = await session.ready(new AbortController().signal);
  return { session, connection, close: () => session.close() };
}

/** How many nodes there are at and below a path. */
export async function countNodes(url: string, path: string): Promise<number> {
  const bare = await bareSession(url);
  try {
    return await count(bare.connection, path);
  } finally {
    await bare.close();
  }
}

async function count(connection: Connection, path: string): Promise<number> {
  const names = await connection.send(getChildren(path));
  const below = await Promise.all(names.map((name) => count(connection, `${path}/${name}`)));
  return 1 + below.reduce((sum, one) => sum + one, 0);
}
