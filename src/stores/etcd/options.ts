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

/** A `Channel` of `@grpc/grpc-js`, by the methods that its clients call. */
export interface GrpcChannel {
  readonly createCall: (...args: never[]) => unknown;
  readonly getConnectivityState: (...args: never[]) => unknown;
  readonly getTarget: () => string;
}

/** `ClientOptions` of `@grpc/grpc-js`. A channel goes into the option `channel` of `etcd()`. */
export interface GrpcClientOptions {
  readonly channelFactoryOverride?: (...args: never[]) => unknown;
  readonly interceptors?: readonly ((...args: never[]) => unknown)[];
  readonly interceptor_providers?: readonly ((...args: never[]) => unknown)[];
  readonly callInvocationTransformer?: (...args: never[]) => unknown;
  /** Channel options, such as `grpc.keepalive_time_ms`. */
  readonly [option: `grpc${string}`]: unknown;
}

/** A user and a password that log in, or a token that the cluster accepts as it is. */
export type EtcdCredentials =
  | { readonly user: string; readonly password: string }
  | { readonly token: string };

export interface EtcdOptions {
  /** `etcd://user:password@h1:2379,h2:2379,h3:2379`, or `etcds://` for TLS; `?order=exclusive`. */
  readonly url?: string;
  /** Instead of a URL: `host:port` of the members. */
  readonly endpoints?: readonly string[];
  /**
   * Instead of a URL: a gRPC channel of your own, with its own target, TLS and load balancing. holdfast never
   * changes and never closes it.
   * @example
   * etcd({ channel: new grpc.Channel("dns:etcd.internal:2379", grpc.credentials.createSsl(), {}) })
   */
  readonly channel?: GrpcChannel;
  /**
   * Client options of `@grpc/grpc-js` for the connections that holdfast opens, such as interceptors, a proxy
   * or keep-alive times. They go before holdfast's own.
   * @example
   * etcd({ url: "etcds://h1,h2,h3", clientOptions: { "grpc.enable_http_proxy": 1 } })
   */
  readonly clientOptions?: GrpcClientOptions;
  /**
   * `"fifo"`: first come, first served. `"exclusive"`: whoever is first when the key is free. Default
   * `"fifo"`.
   */
  readonly order?: "fifo" | "exclusive";
  readonly user?: string;
  readonly password?: string;
  /**
   * Instead of `user` and `password`: called before each login, so that a password or a token may change
   * while the process runs.
   */
  readonly credentials?: () => EtcdCredentials | Promise<EtcdCredentials>;
  /** Certificates, or `true` for those that Node trusts. */
  readonly tls?: boolean | EtcdTls;
}

/** Validated options. */
export interface EtcdSettings {
  /** The target of the channel if there is one. */
  readonly endpoints: readonly string[];
  readonly order: Order;
  readonly channel: GrpcChannel | null;
  readonly clientOptions: GrpcClientOptions;
  readonly tls: EtcdTls | null;
  /** Undefined for a cluster without authentication. */
  readonly credentials?: () => EtcdCredentials | Promise<EtcdCredentials>;
}

const OPTIONS = [
  ...["url", "endpoints", "channel", "clientOptions", "order"],
  ...["user", "password", "credentials", "tls"],
];
const CLIENT_OPTIONS = [
  ...["channelFactoryOverride", "interceptors", "interceptor_providers", "callInvocationTransformer"],
];
const DEFAULT_PORT = 2_379;
const URL_FORM = /^etcd(s?):\/\/(?:([^@/?#]*)@)?([^@/?#]+)\/?(?:\?([^#]*))?$/;

export function readOptions(options: EtcdOptions): EtcdSettings {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name))
      throw new InvalidArgumentError(
        `etcd() has no option ${JSON.stringify(name)}: it knows ${OPTIONS.join(", ")}`,
      );
  }
  const { url, channel, clientOptions = {} } = options;
  if ([url, options.endpoints, channel].filter((one) => one !== undefined).length !== 1)
    throw new InvalidArgumentError("etcd() takes one of url, endpoints and channel");
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const merged: EtcdOptions = { ...(url === undefined ? {} : readUrl(url)), ...given };
  const { order = "fifo", tls = false } = merged;
  if (order !== "fifo" && order !== "exclusive")
    throw new InvalidArgumentError(`order must be "fifo" or "exclusive", got ${describe(order)}`);
  checkClientOptions(clientOptions);
  return {
    endpoints: channel === undefined ? readEndpoints(merged.endpoints) : [checkChannel(options)],
    order,
    channel: channel ?? null,
    clientOptions,
    tls: readTls(tls),
    ...readCredentials(merged),
  };
}

/** Returns its target. */
function checkChannel({ channel, clientOptions, tls }: EtcdOptions): string {
  const methods: readonly (keyof GrpcChannel)[] = ["createCall", "getConnectivityState", "getTarget"];
  const isChannel =
    typeof channel === "object" &&
    channel !== null &&
    methods.every((method) => typeof channel[method] === "function");
  if (!isChannel)
    throw new InvalidArgumentError(`channel must be a Channel of @grpc/grpc-js, got ${describe(channel)}`);
  if (clientOptions !== undefined || tls !== undefined)
    throw new InvalidArgumentError(
      "etcd() takes a channel without clientOptions and tls: the channel has its own options and credentials",
    );
  return channel.getTarget();
}

function checkClientOptions(clientOptions: GrpcClientOptions): void {
  if (!isPlain(clientOptions))
    throw new InvalidArgumentError(
      `clientOptions must be client options of @grpc/grpc-js, got ${describe(clientOptions)}`,
    );
  for (const name of Object.keys(clientOptions)) {
    if (name === "channelOverride")
      throw new InvalidArgumentError("clientOptions must not have channelOverride: use etcd({ channel })");
    if (!name.startsWith("grpc") && !CLIENT_OPTIONS.includes(name))
      throw new InvalidArgumentError(
        `clientOptions must be client options of @grpc/grpc-js, got the option ${describe(name)}`,
      );
  }
}

function readTls(tls: unknown): EtcdTls | null {
  if (typeof tls === "boolean") return tls ? {} : null;
  if (isPlain(tls)) return tls;
  throw new InvalidArgumentError(`tls must be true, false or { ca, cert, key }, got ${describe(tls)}`);
}

function readCredentials({ user, password, credentials }: EtcdOptions): Pick<EtcdSettings, "credentials"> {
  if (credentials !== undefined) {
    if (typeof credentials !== "function")
      throw new InvalidArgumentError(`credentials must be a function, got ${describe(credentials)}`);
    if (user !== undefined || password !== undefined)
      throw new InvalidArgumentError("etcd() takes either credentials or a user and a password");
    return { credentials };
  }
  if (user === undefined && password === undefined) return {};
  if (typeof user !== "string" || user === "" || typeof password !== "string")
    throw new InvalidArgumentError("etcd() takes a user and a password together, both as strings");
  return { credentials: () => ({ user, password }) };
}

/** @throws InvalidArgumentError, never with a password or a token in it. */
export function checkCredentials(value: unknown): EtcdCredentials {
  const { user, password, token } = (value ?? {}) as Record<string, unknown>;
  if (typeof token === "string" && token !== "") return { token };
  if (typeof user === "string" && user !== "" && typeof password === "string") return { user, password };
  const got = isPlain(value)
    ? `an object with ${Object.keys(value).join(", ") || "no members"}`
    : typeof value;
  throw new InvalidArgumentError(
    `credentials() of etcd() must return { user, password } or { token }, got ${got}`,
  );
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function describe(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return String(value);
  const { constructor } = value;
  return isPlain(value) ? "an object" : `an instance of ${constructor?.name || "a class"}`;
}

function readUrl(url: string): EtcdOptions {
  const match = typeof url === "string" ? URL_FORM.exec(url) : null;
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

function readEndpoints(endpoints: unknown): string[] {
  if (!Array.isArray(endpoints) || endpoints.length === 0)
    throw new InvalidArgumentError(`endpoints must be a list of host:port, got ${describe(endpoints)}`);
  return endpoints.map(withPort);
}

function withPort(endpoint: string): string {
  if (typeof endpoint !== "string" || !/^(\[[0-9a-fA-F:.]+\]|[^:[\]/\s]+)(:\d{1,5})?$/.test(endpoint))
    throw new InvalidArgumentError(`an endpoint of etcd must be host:port, got ${describe(endpoint)}`);
  return /:\d+$/.test(endpoint) && !endpoint.endsWith("]") ? endpoint : `${endpoint}:${DEFAULT_PORT}`;
}
