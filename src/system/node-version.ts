// Throws on import if the version of Node is too old. Import it first: otherwise an old version fails in
// the middle of a call.

const OLDEST = [20, 19] as const;

/** Bun and Deno report the version of Node that they are compatible with. */
export function requireNode(version: string | undefined): void {
  if (version === undefined || !isOlder(version)) return;
  const needed = OLDEST.join(".");
  throw new Error(`holdfast needs Node ${needed} or later, got ${version}: install a newer Node`);
}

function isOlder(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]);
}

requireNode(process.versions.node);
