// The options of `redlock()` and its URL, parsed and validated. Loads nothing. A URL is never shown in an
// error: it may hold a password.

import { type Duration, duration, toMs } from "../../core/duration.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { RedisNodeClient } from "../shared/redis-client-types.ts";
import { withRedisScheme } from "../shared/redis-url.ts";

export interface RedlockOptions {
  /**
   * Connected clients of node-redis (4 to 6) or ioredis (5, 6), and URLs `redis://` or `rediss://` (also
   * `valkey://`, `valkeys://`), in any mix.
   */
  readonly nodes: readonly (string | RedisNodeClient)[];
  /**
   * No lease lasts longer without renewal. A restarted node is in quarantine for longer than this. It must be
   * the same in every process.
   * @default "60s"
   */
  readonly maxTtl?: Duration;
  /**
   * How long to wait for a single node whose vote decides.
   * @default "1s"
   */
  readonly nodeTimeout?: Duration;
  /**
   * The package that connects to URLs, `redis` or `ioredis`, instead of connections of holdfast's own.
   * @default connections of holdfast's own, which need no package and are faster
   */
  readonly driver?: "redis" | "ioredis" | undefined;
}

const OPTIONS = ["nodes", "maxTtl", "nodeTimeout", "driver"];
const MAX_TTL_MS = 60_000;
const NODE_TIMEOUT_MS = 1_000;

export interface CheckedOptions {
  readonly nodes: readonly (string | object)[];
  readonly driver: "redis" | "ioredis" | undefined;
  readonly settings: RedlockSettings;
}

export interface RedlockSettings {
  readonly maxTtlMs: number;
  readonly nodeTimeoutMs: number;
}

export function readOptions(options: RedlockOptions): CheckedOptions {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name))
      throw new InvalidArgumentError(
        `redlock() has no option ${JSON.stringify(name)}: it knows ${OPTIONS.join(", ")}`,
      );
  }
  const { driver } = options;
  if (!Array.isArray(options.nodes) || options.nodes.length === 0)
    throw new InvalidArgumentError(
      "redlock() takes nodes: an array of clients or URLs, five of them at best",
    );
  const nodes: readonly unknown[] = options.nodes.map((node: unknown) =>
    typeof node === "string" ? withRedisScheme(node) : node,
  );
  for (const node of nodes) checkNode(node);
  if (driver !== undefined && driver !== "redis" && driver !== "ioredis")
    throw new InvalidArgumentError(`driver is "redis" or "ioredis", not ${JSON.stringify(driver)}`);
  const settings = {
    maxTtlMs: readPositive("maxTtl", options.maxTtl ?? MAX_TTL_MS),
    nodeTimeoutMs: readPositive("nodeTimeout", options.nodeTimeout ?? NODE_TIMEOUT_MS),
  };
  return { nodes: nodes as readonly (string | object)[], driver, settings };
}

/** `redlock://user:password@h1:p,h2:p,h3:p/db?maxTtl=60s`; `redlocks://` for TLS. */
export function readUrl(url: string): RedlockOptions {
  const match = /^redlock(s?):\/\/(?:([^@/]*)@)?([^/?#]+)(\/\d+)?\/?(?:\?([^#]*))?$/.exec(url);
  if (match === null) throw new InvalidArgumentError(URL_FORM);
  const [, tls, user, hosts = "", database = "", query = ""] = match;
  const login = user === undefined ? "" : `${user}@`;
  const nodes = hosts.split(",").map((host) => `redis${tls}://${login}${host}${database}`);
  return { nodes, ...readQuery(query) };
}

const URL_FORM =
  "the URL of a redlock is redlock://host:port,host:port,host:port, with ?maxTtl=60s and &nodeTimeout=1s " +
  "if wanted";

function readQuery(query: string): { readonly maxTtl?: number; readonly nodeTimeout?: number } {
  const found: { maxTtl?: number; nodeTimeout?: number } = {};
  for (const [name, value] of new URLSearchParams(query)) {
    if (name !== "maxTtl" && name !== "nodeTimeout")
      throw new InvalidArgumentError(`${URL_FORM}; it knows no ${JSON.stringify(name)}`);
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

function readPositive(name: string, value: unknown): number {
  const ms = toMs(name, value);
  if (ms > 0) return ms;
  throw new InvalidArgumentError(`${name} of redlock() must be greater than 0, got ${String(value)}`);
}
