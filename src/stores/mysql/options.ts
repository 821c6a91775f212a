// `mysql://user:password@h1:3306,h2/database?mode=row`: several hosts, so it is not a URL that the platform
// could read. Nothing of it is ever shown: it may hold a password.

import { InvalidArgumentError } from "../../core/errors.ts";
import type { Address } from "./client/port.ts";

export interface Login {
  readonly hosts: readonly Address[];
  readonly user: string;
  readonly password: string;
  readonly database: string;
  /** As mysql2 takes it: the name of a profile, or options of TLS. */
  readonly ssl?: string | object | undefined;
}

export interface ParsedUrl {
  readonly login: Login;
  readonly query: URLSearchParams;
}

const DEFAULT_PORT = 3306;
const SHAPE = /^(?:mysql|mariadb):\/\/(?:([^@/]*)@)?([^/?#]+)\/([^/?#]+)(?:\?([^#]*))?$/;
const HOST = /^(\[[^\]]+\]|[^:]+)(?::(\d{1,5}))?$/;

export function parseUrl(url: string): ParsedUrl {
  const parts = typeof url === "string" ? SHAPE.exec(url) : null;
  if (parts === null) throw badUrl();
  const [, credentials = "", hosts, database, query = ""] = parts;
  const colon = credentials.indexOf(":");
  const [user, password] =
    colon === -1 ? [credentials, ""] : [credentials.slice(0, colon), credentials.slice(colon + 1)];
  return {
    login: {
      hosts: (hosts as string).split(",").map(addressOf),
      user: plain(user),
      password: plain(password),
      database: plain(database as string),
    },
    query: new URLSearchParams(query),
  };
}

function addressOf(text: string): Address {
  const parts = HOST.exec(text);
  if (parts === null) throw badUrl();
  const port = parts[2] === undefined ? DEFAULT_PORT : Number(parts[2]);
  return { host: plain((parts[1] as string).replace(/^\[|\]$/g, "")), port };
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
    "the URL of a MySQL or MariaDB is mysql://user:password@host:port/database, with several hosts " +
      "parted by commas; special characters are percent-encoded",
  );
}
