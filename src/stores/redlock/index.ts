// `holdfast/redlock`: locks over N independent Redis or Valkey masters, held by whoever a majority of them
// has granted to. This file stays light: clients and the rest of the store are loaded when a store is opened,
// never on import.

import { type Duration, duration, toMs } from "../../core/duration.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import type { RedisNodeClient } from "../shared/redis-client-types.ts";
import { redlockGuarantees } from "./guarantees.ts";

export { redlockGuarantees } from "./guarantees.ts";

export interface RedlockOptions {
  /**
   * Each a connected client of node-redis (4 to 6) or ioredis (5, 6), or a URL `redis://` or `rediss://`.
   * Mixed as you like.
   */
  readonly nodes: readonly (string | RedisNodeClient)[];
  /**
   * No lease lasts longer without renewal; a restarted node is in quarantine for longer. The same in every
   * process.
   */
  readonly maxTtl?: Duration;
  /** How long a single node is waited for where the vote hangs on it. */
  readonly nodeTimeout?: Duration;
  /** Which package to load for URLs; default whichever is installed, `redis` first. */
  readonly driver?: "redis" | "ioredis";
}

const OPTIONS = ["nodes", "maxTtl", "nodeTimeout", "driver"];
const MAX_TTL_MS = 60_000;
const NODE_TIMEOUT_MS = 1_000;

export function redlock(options: RedlockOptions): Store {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name))
      throw new InvalidArgumentError(
        `redlock() has no option ${JSON.stringify(name)}: it knows ${OPTIONS.join(", ")}`,
      );
  }
  const { nodes, driver } = options;
  if (!Array.isArray(nodes) || nodes.length === 0)
    throw new InvalidArgumentError(
      "redlock() takes nodes: an array of clients or URLs, five of them at best",
    );
  for (const node of nodes) checkNode(node);
  if (driver !== undefined && driver !== "redis" && driver !== "ioredis")
    throw new InvalidArgumentError(`driver is "redis" or "ioredis", not ${JSON.stringify(driver)}`);
  const settings = {
    maxTtlMs: positive("maxTtl", options.maxTtl ?? MAX_TTL_MS),
    nodeTimeoutMs: positive("nodeTimeout", options.nodeTimeout ?? NODE_TIMEOUT_MS),
  };
  // Once for all nodes: a client that is not installed is an error of its own, not that of a majority.
  const loadClient = async (): Promise<void> => {
    if (nodes.every((node) => typeof node !== "string")) return;
    const { loaded } = await import("../redis/clients.ts");
    await loaded(driver);
  };
  return {
    name: "redlock",
    guarantees: redlockGuarantees,
    load: () => Promise.all([import("./open.ts"), loadClient()]),
    async open(env: StoreEnv): Promise<OpenStore> {
      await loadClient();
      const { openRedlock } = await import("./open.ts");
      return openRedlock(nodes as readonly (string | object)[], driver, env, settings);
    },
  };
}

/** `redlock://user:password@h1:p,h2:p,h3:p/db?maxTtl=60s`; `redlocks://` for TLS. */
export function redlockByUrl(url: string): Store {
  const match = /^redlock(s?):\/\/(?:([^@/]*)@)?([^/?#]+)(\/\d+)?\/?(?:\?([^#]*))?$/.exec(url);
  if (match === null) throw new InvalidArgumentError(SHAPE);
  const [, tls, user, hosts = "", database = "", query = ""] = match;
  const login = user === undefined ? "" : `${user}@`;
  const nodes = hosts.split(",").map((host) => `redis${tls}://${login}${host}${database}`);
  const { nodeTimeout, maxTtl } = settingsOf(query);
  return redlock({
    nodes,
    ...(maxTtl === undefined ? {} : { maxTtl }),
    ...(nodeTimeout === undefined ? {} : { nodeTimeout }),
  });
}

/** The URL itself is never shown: it may hold a password. */
const SHAPE =
  "the URL of a redlock is redlock://host:port,host:port,host:port, with ?maxTtl=60s and &nodeTimeout=1s if wanted";

function settingsOf(query: string): { readonly maxTtl?: number; readonly nodeTimeout?: number } {
  const found: { maxTtl?: number; nodeTimeout?: number } = {};
  for (const [name, value] of new URLSearchParams(query)) {
    if (name !== "maxTtl" && name !== "nodeTimeout")
      throw new InvalidArgumentError(`${SHAPE}; it knows no ${JSON.stringify(name)}`);
    found[name] = duration(value);
  }
  return found;
}

function checkNode(node: unknown): void {
  if (typeof node === "object" && node !== null) return;
  if (typeof node === "string" && /^rediss?:\/\//.test(node) && URL.canParse(node)) return;
  throw new InvalidArgumentError(
    "a node of redlock() is a client, or a URL redis://host:port or rediss://host:port",
  );
}

function positive(name: string, value: unknown): number {
  const ms = toMs(name, value);
  if (ms > 0) return ms;
  throw new InvalidArgumentError(`${name} of redlock() is ${String(value)}: it is more than nothing`);
}
