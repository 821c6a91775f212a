// State that belongs to the process and not to a copy of this package. A process can have several copies: the
// ES modules and the CommonJS copy, or one in each bundle of a framework.

/** The version of the package, as a test ensures: copies of different versions share nothing. */
const VERSION = "0.2.0";

/** The process-wide value `name`. The first copy that needs it makes it. */
export function processWide<T>(name: string, make: () => T): T {
  const values = globalThis as unknown as Record<symbol, T | undefined>;
  return (values[Symbol.for(`holdfast:${name}:${VERSION}`)] ??= make());
}
