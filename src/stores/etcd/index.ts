// `holdfast/etcd`: locks on an etcd cluster. This file stays light: the client and the rest of the store are loaded when a
// store is opened, never on import.

import { InvalidArgumentError } from "../../core/errors.ts";
import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import { isMissing } from "../shared/missing-client.ts";
import type { ClusterOptions } from "./cluster.ts";
import type { Order } from "./deps.ts";
import { noClientError } from "./errors.ts";
import { etcdExclusiveGuarantees, etcdGuarantees } from "./guarantees.ts";
import { Names } from "./names.ts";

export { etcdExclusiveGuarantees, etcdGuarantees } from "./guarantees.ts";

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
  /** `"fifo"`: first come, first served. `"exclusive"`: whoever is first when the key is free. Default `"fifo"`. */
  readonly order?: "fifo" | "exclusive";
  readonly user?: string;
  readonly password?: string;
  /** Certificates, or `true` for those that Node trusts. */
  readonly tls?: boolean | EtcdTls;
}

const OPTIONS = ["url", "endpoints", "order", "user", "password", "tls"];
const DEFAULT_PORT = 2_379;

export function etcd(options: EtcdOptions): Store {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name))
      throw new InvalidArgumentError(
        `etcd() has no option ${JSON.stringify(name)}: it knows ${OPTIONS.join(", ")}`,
      );
  }
  if ((options.url === undefined) === (options.endpoints === undefined))
    throw new InvalidArgumentError("etcd() takes either a url or endpoints");
  const {
    order = "fifo",
    endpoints = [],
    user,
    password,
    tls,
  } = { ...parts(options.url), ...defined(options) };
  if (order !== "fifo" && order !== "exclusive")
    throw new InvalidArgumentError(`order of etcd is "fifo" or "exclusive", not ${JSON.stringify(order)}`);
  if ((user === undefined) !== (password === undefined))
    throw new InvalidArgumentError("etcd() takes a user and a password together");
  const settings = {
    endpoints: endpoints.map(withPort),
    tls: tls === undefined || tls === false ? null : tls === true ? {} : tls,
    user: user === undefined || password === undefined ? null : { name: user, password },
  };
  return {
    name: "etcd",
    guarantees: order === "fifo" ? etcdGuarantees : etcdExclusiveGuarantees,
    load,
    open: (env) => open(settings, order, env),
  };
}

/** `etcd://...` or `etcds://...`. */
export function etcdByUrl(url: string): Store {
  return etcd({ url });
}

const load = () =>
  Promise.all([
    import(/* webpackIgnore: true */ "@grpc/grpc-js").catch((error: unknown) => {
      throw isMissing(error) ? noClientError() : error;
    }),
    import("./cluster.ts"),
    import("./store.ts"),
  ]);

async function open(
  settings: Omit<ClusterOptions, "probe">,
  order: Order,
  env: StoreEnv,
): Promise<OpenStore> {
  const [grpc, { Cluster }, { EtcdOpenStore }] = await load();
  const probe = new Names(env.namespace).locks.key;
  return EtcdOpenStore.open(new Cluster(grpc, { ...settings, probe }, env.system), order, env);
}

function defined(options: EtcdOptions): EtcdOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** The URL itself is never shown: it may hold a password. */
function parts(url: string | undefined): EtcdOptions {
  if (url === undefined) return {};
  const found = /^etcd(s?):\/\/(?:([^@/?#]*)@)?([^@/?#]+)\/?(?:\?([^#]*))?$/.exec(url);
  if (found === null) throw badUrl();
  const [, secure, login, hosts = "", query = ""] = found;
  const [user, password, ...rest] = (login ?? "").split(":");
  const search = new URLSearchParams(query);
  const order = search.get("order") ?? "fifo";
  if ([...search.keys()].some((name) => name !== "order") || rest.length > 0) throw badUrl();
  return {
    endpoints: hosts.split(","),
    order: order as Order,
    ...(secure === "s" ? { tls: true } : {}),
    ...(login === undefined ? {} : { user: plain(user ?? ""), password: plain(password ?? "") }),
  };
}

function plain(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw badUrl();
  }
}

function badUrl(): InvalidArgumentError {
  return new InvalidArgumentError(
    "the URL of an etcd is etcd://host:port,host:port or etcds://..., with user:password@ before the hosts and ?order=fifo or ?order=exclusive after them",
  );
}

function withPort(endpoint: string): string {
  if (typeof endpoint !== "string" || !/^(\[[0-9a-fA-F:.]+\]|[^:[\]/\s]+)(:\d{1,5})?$/.test(endpoint)) {
    throw new InvalidArgumentError(`${JSON.stringify(endpoint)} is no host:port of an etcd`);
  }
  return /:\d+$/.test(endpoint) && !endpoint.endsWith("]") ? endpoint : `${endpoint}:${DEFAULT_PORT}`;
}
