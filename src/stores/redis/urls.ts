// URLs of a Redis that has several nodes: `redis+sentinel://[user:password@]h1:p,h2:p/name[/db]` and
// `redis+cluster://[user:password@]h1:p,h2:p`, with `rediss` for TLS. A URL is never shown: it may hold a password.

import { InvalidArgumentError } from "../../core/errors.ts";
import type { Address } from "./link.ts";

export type Topology = "node" | "sentinel" | "cluster";

export interface Login {
  readonly username?: string;
  readonly password?: string;
}

export interface NodesUrl {
  readonly topology: "sentinel" | "cluster";
  readonly tls: boolean;
  readonly hosts: readonly Address[];
  /** Only with sentinels: the name under which they know the primary. */
  readonly master: string;
  readonly database: number;
  readonly login: Login;
  /** Sentinels have users of their own. */
  readonly sentinel: Login;
}

const FORM = /^redis(s?)\+(sentinel|cluster):\/\/(?:([^@/]*)@)?([^/?]+)(\/[^?]*)?(?:\?(.*))?$/;
const HOST = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/;
const DEFAULT_PORT = { sentinel: 26_379, cluster: 6_379 } as const;
const WRONG =
  "the URL of a Redis with sentinels is redis+sentinel://host:port,host:port/name, that of a Cluster redis+cluster://host:port,host:port; rediss instead of redis for TLS";

export function topologyOfUrl(url: string): Topology {
  const word = /^rediss?\+(sentinel|cluster):/.exec(url)?.[1];
  return word === undefined ? "node" : (word as Topology);
}

export function readNodesUrl(url: string): NodesUrl {
  const parts = FORM.exec(url);
  if (parts === null) throw new InvalidArgumentError(WRONG);
  const [, secure, kind, user, hosts, path = "", query = ""] = parts;
  const topology = kind as "sentinel" | "cluster";
  const [master = "", database = "0", ...rest] = path.split("/").slice(1).map(decode);
  const right = topology === "sentinel" ? master !== "" && /^\d+$/.test(database) : master === "";
  if (!right || rest.length > 0) throw new InvalidArgumentError(WRONG);
  const asked = new URLSearchParams(query);
  return {
    topology,
    tls: secure === "s",
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
  if (host === undefined || Number(digits ?? port) > 65_535) throw new InvalidArgumentError(WRONG);
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

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidArgumentError(WRONG);
  }
}
