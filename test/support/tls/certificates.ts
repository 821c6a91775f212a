// The certificates in this folder, by name.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ServerTls } from "../../../scripts/servers/tls.ts";

const folder = import.meta.dirname;
const path = (name: string): string => join(folder, name);

export const CA_FILE: string = path("ca.pem");
export const CA: string = readFileSync(CA_FILE, "utf8");
/** Of somebody who has signed nothing here. */
export const OTHER_CA_FILE: string = path("other-ca.pem");
export const OTHER_CA: string = readFileSync(OTHER_CA_FILE, "utf8");

/** For localhost and 127.0.0.1, or for a host that is neither. */
export function certificate(name: "server" | "elsewhere"): ServerTls {
  return { cert: path(`${name}.pem`), key: path(`${name}-key.pem`), ca: CA_FILE };
}

/** The same as text. */
export function pem(name: "server" | "elsewhere"): { readonly cert: string; readonly key: string } {
  const { cert, key } = certificate(name);
  return { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") };
}
