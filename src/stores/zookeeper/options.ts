// Options and URL of a ZooKeeper ensemble, parsed and validated. No message contains a URL or a password.

import type { ConnectionOptions } from "node:tls";
import { type Duration, toMs } from "../../core/duration.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { DEFAULT_SESSION_MS } from "./guarantees.ts";
import type { Address } from "./wire/connection.ts";

export interface ZooKeeperOptions {
  /** `host:port` of each server. The default port is 2181. */
  readonly servers?: readonly string[];
  /**
   * Instead of `servers`: `zookeeper://user:password@h1,h2,h3/chroot?sessionTimeout=10s`, or `zookeepers://`
   * for TLS.
   */
  readonly url?: string;
  /** All nodes are below this one. */
  readonly chroot?: string;
  /** How long the servers keep the locks of a process that is gone. They may negotiate another time. */
  readonly sessionTimeout?: Duration;
  /** Digest credentials. Only this user may then access the nodes. */
  readonly user?: string;
  readonly password?: string;
  /** TLS: true, or the options of node:tls. */
  readonly tls?: boolean | ConnectionOptions;
}

export interface Settings {
  readonly servers: readonly Address[];
  readonly chroot: string;
  readonly sessionMs: number;
  readonly digest: string | null;
  readonly tls: ConnectionOptions | null;
}

const OPTIONS = ["servers", "url", "chroot", "sessionTimeout", "user", "password", "tls"];
const DEFAULT_PORT = 2181;
const SHORTEST_SESSION_MS = 100;
const FORM = "zookeeper://user:password@host:port,host:port/chroot?sessionTimeout=10s";
const URL_FORM = /^zookeeper(s?):\/\/(?:([^@/?#]*)@)?([^@/?#]+)(\/[^?#]*)?(?:\?([^#]*))?$/;

export function readOptions(options: ZooKeeperOptions): Settings {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name)) {
      const known = OPTIONS.join(", ");
      throw new InvalidArgumentError(`zookeeper() has no option ${JSON.stringify(name)}: it knows ${known}`);
    }
  }
  const { url, servers } = options;
  if ((url === undefined) === (servers === undefined))
    throw new InvalidArgumentError("zookeeper() takes either servers or a url");
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  return validate(url === undefined ? given : { ...readUrl(url), ...given });
}

function validate(options: ZooKeeperOptions): Settings {
  const { servers = [], chroot = "", sessionTimeout, user, password, tls = false } = options;
  if (!Array.isArray(servers) || servers.length === 0)
    throw new InvalidArgumentError(`servers must be a list of host:port, got ${JSON.stringify(servers)}`);
  checkLogin(user, password);
  return {
    servers: servers.map(readAddress),
    chroot: checkChroot(chroot),
    sessionMs: sessionTimeout === undefined ? DEFAULT_SESSION_MS : checkTimeout(sessionTimeout),
    digest: user === undefined ? null : `${user}:${password}`,
    tls: readTls(tls),
  };
}

/** The server takes everything up to the first colon as the name of the user. */
function checkLogin(user: unknown, password: unknown): void {
  if (user === undefined && password === undefined) return;
  if (typeof user !== "string" || typeof password !== "string")
    throw new InvalidArgumentError("zookeeper() takes a user and a password together, both as strings");
  if (user === "" || user.includes(":"))
    throw new InvalidArgumentError(`user must be a name without a colon, got ${JSON.stringify(user)}`);
}

function readTls(tls: unknown): ConnectionOptions | null {
  if (typeof tls === "boolean") return tls ? {} : null;
  if (typeof tls === "object" && tls !== null) return tls;
  throw new InvalidArgumentError(`tls must be true, false or options of node:tls, got ${String(tls)}`);
}

function readUrl(url: string): ZooKeeperOptions {
  const found = typeof url === "string" ? URL_FORM.exec(url) : null;
  if (found === null) throw new InvalidArgumentError(`the URL of a ZooKeeper is ${FORM}`);
  const [, secure, login, hosts = "", chroot = "", query = ""] = found;
  const parameters = new URLSearchParams(query);
  for (const name of parameters.keys()) {
    if (name !== "sessionTimeout")
      throw new InvalidArgumentError(
        `the URL of a ZooKeeper knows sessionTimeout, not ${JSON.stringify(name)}`,
      );
  }
  const timeout = parameters.get("sessionTimeout");
  const [user, ...password] = login === undefined ? [] : login.split(":").map(decode);
  return {
    servers: hosts.split(","),
    chroot: decode(chroot),
    ...(timeout === null ? {} : { sessionTimeout: timeout as Duration }),
    ...(user === undefined ? {} : { user, password: password.join(":") }),
    ...(secure === "s" ? { tls: true } : {}),
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidArgumentError(`the URL of a ZooKeeper is ${FORM}, special characters percent-encoded`);
  }
}

function readAddress(text: string): Address {
  const found = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+))(?::(\d+))?$/.exec(text);
  const port = Number(found?.[3] ?? DEFAULT_PORT);
  const host = found?.[1] ?? found?.[2];
  if (host === undefined || port < 1 || port > 65_535)
    throw new InvalidArgumentError(`a server must be host or host:port, got ${JSON.stringify(text)}`);
  return { host, port };
}

function checkChroot(chroot: string): string {
  const path = chroot.replace(/\/+$/, "");
  // Control characters, surrogates and what servers reject in a path.
  const bad = /\/\/|\/\.{1,2}(\/|$)|[^\x20-\x7e\xa0-\ud7ff\uf900-\uffef]/;
  if (path === "" || (path.startsWith("/") && !bad.test(path))) return path;
  throw new InvalidArgumentError(`chroot must be a path such as /locks, got ${JSON.stringify(chroot)}`);
}

function checkTimeout(timeout: Duration): number {
  const ms = toMs("sessionTimeout", timeout);
  if (ms >= SHORTEST_SESSION_MS && ms <= 0x7fffffff) return Math.round(ms);
  throw new InvalidArgumentError(`sessionTimeout must be at least ${SHORTEST_SESSION_MS} ms, got ${ms} ms`);
}
