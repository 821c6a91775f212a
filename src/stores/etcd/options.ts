// Options and URL of an etcd cluster, parsed and validated. No message contains a URL, because a URL may
// contain a password.

import { InvalidArgumentError } from "../../core/errors.ts";

export type Order = "fifo" | "exclusive";

export interface EtcdTls {
  /** PEM. Default: the certificates that Node trusts. */
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
}

export interface EtcdOptions {
  /** `etcd://user:password@h1:2379,h2:2379,h3:2379`, or `etcds://` for TLS; `?order=exclusive`. */
  readonly url?: string;
  /** Instead of a URL: `host:port` of the members. */
  readonly endpoints?: readonly string[];
  /**
   * `"fifo"`: first come, first served. `"exclusive"`: whoever is first when the key is free. Default
   * `"fifo"`.
   */
  readonly order?: "fifo" | "exclusive";
  readonly user?: string;
  readonly password?: string;
  /** Certificates, or `true` for those that Node trusts. */
  readonly tls?: boolean | EtcdTls;
}

/** Validated options. */
export interface EtcdSettings {
  readonly endpoints: readonly string[];
  readonly order: Order;
  readonly tls: EtcdTls | null;
  readonly user: { readonly name: string; readonly password: string } | null;
}

const OPTIONS = ["url", "endpoints", "order", "user", "password", "tls"];
const DEFAULT_PORT = 2_379;
const URL_FORM = /^etcd(s?):\/\/(?:([^@/?#]*)@)?([^@/?#]+)\/?(?:\?([^#]*))?$/;

export function readOptions(options: EtcdOptions): EtcdSettings {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name))
      throw new InvalidArgumentError(
        `etcd() has no option ${JSON.stringify(name)}: it knows ${OPTIONS.join(", ")}`,
      );
  }
  if ((options.url === undefined) === (options.endpoints === undefined))
    throw new InvalidArgumentError("etcd() takes either a url or endpoints");
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const merged: EtcdOptions = { ...(options.url === undefined ? {} : readUrl(options.url)), ...given };
  const { order = "fifo", endpoints = [], user, password, tls = false } = merged;
  if (order !== "fifo" && order !== "exclusive")
    throw new InvalidArgumentError(`order must be "fifo" or "exclusive", got ${JSON.stringify(order)}`);
  if ((user === undefined) !== (password === undefined))
    throw new InvalidArgumentError("etcd() takes a user and a password together");
  return {
    endpoints: endpoints.map(withPort),
    order,
    tls: tls === false ? null : tls === true ? {} : tls,
    user: user === undefined || password === undefined ? null : { name: user, password },
  };
}

function readUrl(url: string): EtcdOptions {
  const match = URL_FORM.exec(url);
  if (match === null) throw badUrl();
  const [, secure, login, hosts = "", query = ""] = match;
  const [user, password, ...rest] = (login ?? "").split(":");
  const search = new URLSearchParams(query);
  const order = search.get("order") ?? "fifo";
  if ([...search.keys()].some((name) => name !== "order") || rest.length > 0) throw badUrl();
  return {
    endpoints: hosts.split(","),
    order: order as Order,
    ...(secure === "s" ? { tls: true } : {}),
    ...(login === undefined ? {} : { user: decode(user ?? ""), password: decode(password ?? "") }),
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw badUrl();
  }
}

function badUrl(): InvalidArgumentError {
  return new InvalidArgumentError(
    "the URL of an etcd is etcd://host:port,host:port or etcds://..., " +
      "with user:password@ before the hosts and ?order=fifo or ?order=exclusive after them",
  );
}

function withPort(endpoint: string): string {
  if (typeof endpoint !== "string" || !/^(\[[0-9a-fA-F:.]+\]|[^:[\]/\s]+)(:\d{1,5})?$/.test(endpoint))
    throw new InvalidArgumentError(`an endpoint of etcd must be host:port, got ${JSON.stringify(endpoint)}`);
  return /:\d+$/.test(endpoint) && !endpoint.endsWith("]") ? endpoint : `${endpoint}:${DEFAULT_PORT}`;
}
