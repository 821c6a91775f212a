// Imported first, for its effect: throws on a version of Node that lacks what holdfast uses. Without it, such
// a version would fail in the middle of a call.

const OLDEST = [20, 19] as const;

/** Bun and Deno report the version of Node that they stand for. */
export function requireNode(version: string | undefined): void {
  if (version === undefined || !isOlder(version)) return;
  const needed = OLDEST.join(".");
  throw new Error(`holdfast needs Node ${needed} or later, and this is Node ${version}: install a newer one`);
}

function isOlder(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]);
}

requireNode(process.versions.node);
