// Corrects `npm i` hints for a global installation, where Node looks for clients beside holdfast.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The folder that has `node_modules/holdfast` in it, from dist/cli. */
const INSTALLED_IN = new URL("../../../../", import.meta.url);
const IS_INSTALLED: boolean = import.meta.url.includes("/node_modules/holdfast/");

/** `npm i pg` in a message becomes `npm i -g pg` where holdfast was installed globally. */
export function withInstallHint(message: string): string {
  return isGlobal() ? message.replace(/\bnpm i (?!-g)/, "npm i -g ") : message;
}

/** A project has a package.json beside its node_modules; the global folder has none. */
function isGlobal(): boolean {
  return IS_INSTALLED && !existsSync(fileURLToPath(new URL("package.json", INSTALLED_IN)));
}
