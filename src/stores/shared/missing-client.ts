// Clients are optional: users install the one that their store needs. Every import of a client has the form
// `import(/* webpackIgnore: true */ "client").catch(...)`, which bundlers accept when the client is absent:
// webpack and Next.js leave the import as it is, and esbuild, rolldown and Bun do not resolve an import whose
// failure is handled.

/** What Vite puts in the place of an optional peer that it cannot find. */
const VITE_STUB = /^Could not resolve "[^"]+" imported by /;

/** The import failed because the package is not installed. Any other failure is the package's own. */
export function isMissing(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  if (code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND") return true;
  return typeof message === "string" && VITE_STUB.test(message);
}
