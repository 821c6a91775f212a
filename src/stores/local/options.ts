// Options and URL of the local store.

import { isAbsolute } from "node:path";
import { InvalidArgumentError } from "../../core/errors.ts";

/** Options of `local`. */
export interface LocalOptions {
  /**
   * Absolute path of the directory that contains the files. Name one to share locks between users.
   * @default a directory that depends on the user id alone
   */
  readonly dir?: string;
}

/** The directory, or undefined for the default one. */
export function directoryOf(options: LocalOptions): string | undefined {
  for (const name of Object.keys(options)) {
    if (name !== "dir")
      throw new InvalidArgumentError(`local() has no option ${JSON.stringify(name)}: use dir`);
  }
  const { dir } = options as { readonly dir?: unknown };
  if (dir === undefined) return undefined;
  if (typeof dir === "string" && isAbsolute(dir) && !dir.includes("\0")) return dir;
  throw new InvalidArgumentError(
    `dir must be an absolute path, got ${JSON.stringify(dir)}: ` +
      "processes that start in different places must use the same directory",
  );
}

/** `local:` or `local:/some/dir`. The path is not percent-decoded. */
export function optionsOfUrl(url: string): LocalOptions {
  const path = url.slice("local:".length);
  if (path === "" || path === "//") return {};
  if (path.startsWith("//") && !path.startsWith("///")) {
    throw new InvalidArgumentError(
      `the URL of the local store must be local: or local:/some/dir, got ${JSON.stringify(url)}, ` +
        "which names a host",
    );
  }
  return { dir: path };
}
