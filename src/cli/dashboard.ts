// `holdfast dashboard`: serves the page of holdfast/dashboard until a signal ends it.

import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dashboard as handlerOf, nodeHandler } from "../dashboard/index.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { openForReading, type StoreFlags, storeUrl } from "./options.ts";
import { print, printJson } from "./output.ts";
import { redactUrl } from "./format.ts";

export interface DashboardFlags extends StoreFlags {
  readonly listen?: string;
  readonly allowRevoke?: true;
  readonly token?: string;
}

const DEFAULT_LISTEN = "127.0.0.1:0";
const LOOPBACK: ReadonlySet<string> = new Set(["127.0.0.1", "::1", "localhost"]);
const TOKEN_BYTES = 24;

export async function dashboard(flags: DashboardFlags): Promise<number> {
  const { host, port } = readListen(flags.listen ?? DEFAULT_LISTEN);
  if (!LOOPBACK.has(host) && flags.token === undefined)
    throw new CommandError(
      `--listen ${host} needs --token: it is not a loopback address, so others could see the page`,
      EXIT.usage,
    );
  // Without --token, only a person who can read this terminal gets the token and can revoke.
  const token =
    flags.token ?? (flags.allowRevoke ? randomBytes(TOKEN_BYTES).toString("base64url") : undefined);
  const locks = await openForReading(flags);
  try {
    const handle = handlerOf(locks, {
      title: redactUrl(storeUrl(flags)),
      allowRevoke: flags.allowRevoke === true,
      ...(token === undefined ? {} : { token }),
    });
    const server = createServer(nodeHandler(handle));
    const ended = new Promise<void>((resolve, reject) => {
      server.once("error", (error) =>
        reject(new CommandError(`cannot listen on ${host}:${port}: ${error.message}`, EXIT.unavailable)),
      );
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => resolve());
    });
    server.listen(port, host, () => printUrl(server.address() as AddressInfo, flags, token));
    await ended;
    server.closeAllConnections();
    server.close();
    return 0;
  } finally {
    await locks.close();
  }
}

/** The token is in the fragment, which a browser does not send. */
function printUrl(
  { address, port, family }: AddressInfo,
  flags: DashboardFlags,
  token: string | undefined,
): void {
  const host = family === "IPv6" ? `[${address}]` : address;
  const fragment = token === undefined || flags.token !== undefined ? "" : `#token=${token}`;
  const url = `http://${host}:${port}/${fragment}`;
  if (flags.json) printJson({ url });
  else print(`${url}\n`);
}

function readListen(text: string): { readonly host: string; readonly port: number } {
  const [, host = "", port = ""] = /^(?:\[?([\w.:%-]*?)\]?:)?(\d{1,5})$/.exec(text) ?? [];
  if (port === "" || Number(port) > 65_535)
    throw new CommandError(`--listen must be HOST:PORT, got ${JSON.stringify(text)}`, EXIT.usage);
  return { host: host === "" ? "127.0.0.1" : host, port: Number(port) };
}
