// The options of `redis()` and its URLs, parsed and validated. Loads nothing, so that an unused store costs
// nothing. A URL is never shown in an error: it may hold a password.
//
//   redis://[user:password@]host:port[/db]                    one node
//   redis+sentinel://[user:password@]h1:p,h2:p/name[/db]      the primary that sentinels name
//   redis+cluster://[user:password@]h1:p,h2:p                 a Cluster
//   rediss instead of redis                                   TLS
//   valkey instead of redis, valkeys instead of rediss        the same

import type { ConnectionOptions } from "node:tls";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { RedisClient } from "../shared/redis-client-types.ts";
import { withRedisScheme } from "../shared/redis-url.ts";
import { topologyOfClient } from "./client/detect.ts";
import type { Address } from "./topology/connection.ts";

export type Topology = "node" | "sentinel" | "cluster";

export interface RedisOptions {
  /**
   * A connected client of node-redis (4 to 6) or ioredis (5, 6), also of sentinels or a Cluster. It is never
   * changed and never closed.
   */
  readonly client?: RedisClient | undefined;
  /**
   * Instead of a client: `redis://user:password@host:port/db`,
   * `redis+sentinel://user:password@host:port,host:port/name` or
   * `redis+cluster://user:password@host:port,host:port`; `rediss` instead of `redis` for TLS. `valkey` and
   * `valkeys` mean the same as `redis` and `rediss`.
   */
  readonly url?: string;
  /**
   * The package that connects to a URL, `redis` or `ioredis`, instead of connections of holdfast's own.
   * @default connections of holdfast's own, which need no package and are faster
   */
  readonly driver?: "redis" | "ioredis" | undefined;
  /**
   * How many replicas must acknowledge a grant or a renewal before it counts (WAIT). In a URL `?replicas=n`.
   * @default 0
   */
  readonly replicas?: number;
  /**
   * `false`: transactions (WATCH, MULTI) instead of scripts, for exclusive locks only, without a queue. In a
   * URL `?scripts=false`.
   * @default true, and transactions where the server forbids this user to run scripts
   */
  readonly scripts?: boolean;
  /**
   * Options of node:tls for a URL with `rediss`, for example `{ ca }`.
   * @default the authorities that Node trusts
   */
  readonly tls?: ConnectionOptions;
}

export interface CheckedOptions {
  readonly topology: Topology;
  readonly client: RedisClient | undefined;
  /** Without our own parameters in its query. */
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
function readUrl(url: string): FromUrl {
  const text = typeof url === "string" ? withRedisScheme(url) : url;
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

export interface Login {
  readonly username?: string;
  readonly password?: string;
}

export interface NodesUrl {
  readonly topology: "sentinel" | "cluster";
  readonly isSecure: boolean;
  readonly hosts: readonly Address[];
  /** Sentinel only: the name under which the sentinels know the primary. */
  readonly master: string;
  readonly database: number;
  readonly login: Login;
  /** Sentinels have users of their own. */
  readonly sentinel: Login;
}

const FORM = /^redis(s?)\+(sentinel|cluster):\/\/(?:([^@/]*)@)?([^/?]+)(\/[^?]*)?(?:\?(.*))?$/;
const HOST = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/;
const DEFAULT_PORT = { sentinel: 26_379, cluster: 6_379 } as const;
const URL_FORM =
  "the URL of a Redis with sentinels is redis+sentinel://host:port,host:port/name, that of a Cluster " +
  "redis+cluster://host:port,host:port; rediss instead of redis for TLS";

export function topologyOfUrl(url: string): Topology {
  const kind = /^rediss?\+(sentinel|cluster):/.exec(url)?.[1];
  return kind === undefined ? "node" : (kind as Topology);
}

export function readNodesUrl(url: string): NodesUrl {
  const parts = FORM.exec(url);
  if (parts === null) throw new InvalidArgumentError(URL_FORM);
  const [, secure, kind, user, hosts, path = "", query = ""] = parts;
  const topology = kind as "sentinel" | "cluster";
  const [master = "", database = "0", ...rest] = path.split("/").slice(1).map(decode);
  const isRight = topology === "sentinel" ? master !== "" && /^\d+$/.test(database) : master === "";
  if (!isRight || rest.length > 0) throw new InvalidArgumentError(URL_FORM);
  const asked = new URLSearchParams(query);
  return {
    topology,
    isSecure: secure === "s",
    hosts: (hosts ?? "").split(",").map((host) => readHost(host, DEFAULT_PORT[topology])),
    master,
    database: Number(database),
    login: readLogin(user),
    sentinel: {
      ...given("username", asked.get("sentinelUsername")),
      ...given("password", asked.get("sentinelPassword")),
    },
  };
}

function readHost(text: string, port: number): Address {
  const [, bracketed, plain, digits] = HOST.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || Number(digits ?? port) > 65_535) throw new InvalidArgumentError(URL_FORM);
  return { host, port: Number(digits ?? port) };
}

/** `user:password`, `:password` or nothing. */
function readLogin(text: string | undefined): Login {
  if (text === undefined || text === "") return {};
  const [username = "", ...rest] = text.split(":");
  return {
    ...(username === "" ? {} : { username: decode(username) }),
    ...(rest.length === 0 ? {} : { password: decode(rest.join(":")) }),
  };
}

function given(name: keyof Login, text: string | null): Login {
  return text === null ? {} : { [name]: text };
}

export function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidArgumentError("user and password in the URL of a Redis must be percent-encoded");
  }
}
