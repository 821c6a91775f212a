// What `redis()` takes, checked, and the same from the query of a URL. A typo is refused, not ignored. Loads nothing.

import type { ConnectionOptions } from "node:tls";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { RedisClient } from "../shared/redis-client-types.ts";
import { topologyOfClient } from "./shapes.ts";
import { readNodesUrl, type Topology, topologyOfUrl } from "./urls.ts";

export interface RedisOptions {
  /**
   * A connected client of node-redis (4 to 6) or ioredis (5, 6), also of sentinels or a Cluster. holdfast never
   * changes and never closes it.
   */
  readonly client?: RedisClient | undefined;
  /**
   * Instead of a client: `redis://user:password@host:port/db`, `redis+sentinel://user:password@host:port,host:port/name` or
   * `redis+cluster://user:password@host:port,host:port`; `rediss` instead of `redis` for TLS.
   */
  readonly url?: string;
  /** Which package to load for a URL; default whichever is installed, `redis` first. */
  readonly driver?: "redis" | "ioredis";
  /** So many replicas must have acknowledged a grant or a renewal before it counts (WAIT). In a URL `?replicas=n`. Default 0. */
  readonly replicas?: number;
  /**
   * false: transactions (WATCH, MULTI) instead of scripts, for exclusive locks only. In a URL `?scripts=false`. Default: scripts,
   * and transactions where the server forbids this user to run them.
   */
  readonly scripts?: boolean;
  /** Options of node:tls for a URL with `rediss`, for example `{ ca }`. Default: the authorities that Node trusts. */
  readonly tls?: ConnectionOptions;
}

export interface CheckedOptions {
  readonly topology: Topology;
  readonly client: RedisClient | undefined;
  /** Without what is ours in its query. */
  readonly url: string | undefined;
  readonly driver: "redis" | "ioredis" | undefined;
  readonly replicas: number;
  readonly scripts: boolean;
  readonly tls: ConnectionOptions;
}

const OPTIONS = ["client", "url", "driver", "replicas", "scripts", "tls"];
const MOST_REPLICAS = 100;

export function readOptions(options: RedisOptions): CheckedOptions {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name))
      throw new InvalidArgumentError(
        `redis() has no option ${JSON.stringify(name)}: it knows ${OPTIONS.join(", ")}`,
      );
  }
  const { client, driver } = options;
  if ((client === undefined) === (options.url === undefined))
    throw new InvalidArgumentError("redis() takes either a client or a url");
  if (driver !== undefined && driver !== "redis" && driver !== "ioredis")
    throw new InvalidArgumentError(`driver is "redis" or "ioredis", not ${JSON.stringify(driver)}`);
  const { url, ...asked } = options.url === undefined ? { url: undefined } : readUrl(options.url);
  const { replicas = 0, scripts = true } = { ...asked, ...defined(options) };
  if (!Number.isInteger(replicas) || replicas < 0 || replicas > MOST_REPLICAS)
    throw new InvalidArgumentError(`replicas is a count from 0 to ${MOST_REPLICAS}`);
  if (typeof scripts !== "boolean") throw new InvalidArgumentError("scripts is true or false");
  const topology = url === undefined ? topologyOfClient(Object(client) as object) : topologyOfUrl(url);
  const { tls = {} } = options;
  if (options.tls !== undefined && url?.startsWith("rediss") !== true)
    throw new InvalidArgumentError("tls of redis() goes with a URL that begins with rediss");
  return { topology, client, url, driver, replicas, scripts, tls };
}

type FromUrl = { url: string } & Pick<RedisOptions, "replicas" | "scripts">;

/** The URL itself is never shown: it may hold a password. */
function readUrl(text: string): FromUrl {
  const at = typeof text === "string" ? text.indexOf("?") : -1;
  checkUrl(at === -1 ? text : text.slice(0, at));
  if (at === -1) return { url: text };
  const query = new URLSearchParams(text.slice(at + 1));
  const [replicas, scripts] = [query.get("replicas"), query.get("scripts")];
  query.delete("replicas");
  query.delete("scripts");
  if (replicas !== null && !/^\d{1,3}$/.test(replicas))
    throw new InvalidArgumentError("replicas in the URL of a Redis is a count, such as ?replicas=1");
  if (scripts !== null && scripts !== "true" && scripts !== "false")
    throw new InvalidArgumentError("scripts in the URL of a Redis is true or false");
  return {
    url: query.size === 0 ? text.slice(0, at) : `${text.slice(0, at)}?${query.toString()}`,
    ...(replicas === null ? {} : { replicas: Number(replicas) }),
    ...(scripts === null ? {} : { scripts: scripts === "true" }),
  };
}

function checkUrl(url: string): void {
  if (typeof url === "string" && topologyOfUrl(url) !== "node") {
    readNodesUrl(url);
    return;
  }
  if (typeof url === "string" && /^rediss?:\/\//.test(url) && URL.canParse(url)) return;
  throw new InvalidArgumentError("the URL of a Redis is redis://host:port or rediss://host:port");
}

function defined<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T;
}
