// `node scripts/nodes.mjs [22 24 ...]`: unit tests, and the conformance suite on memory and local, on other versions of
// Node. npm installs each version into a folder of its own, which needs the network the first time.
// `npm test` does not run this: it tests the Node that runs it.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { arch, homedir } from "node:os";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const versions = process.argv.slice(2).length > 0 ? process.argv.slice(2) : ["22", "24"];
const RUNS = [
  ["--project", "unit"],
  ["--project", "memory", "--project", "local", "conformance.test.ts"],
];

function programOf(version) {
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), ".cache");
  const place = join(cache, "holdfast", "nodes", version);
  const program = join(place, "node_modules", `node-linux-${arch()}`, "bin", "node");
  if (!existsSync(program)) {
    mkdirSync(place, { recursive: true });
    const wish = `node-linux-${arch()}@${version}`;
    execFileSync("npm", ["install", "--prefix", place, "--no-audit", "--no-fund", wish], {
      stdio: "inherit",
    });
  }
  return program;
}

let failed = 0;
for (const version of versions) {
  const program = programOf(version);
  const name = execFileSync(program, ["--version"], { encoding: "utf8" }).trim();
  for (const args of RUNS) {
    console.log(`\n${name}: ${args.join(" ")}`);
    const { status } = spawnSync(program, [join("node_modules", "vitest", "vitest.mjs"), "run", ...args], {
      cwd: root,
      stdio: "inherit",
    });
    if (status !== 0) failed += 1;
  }
}
console.log(failed === 0 ? `\nwell on ${versions.join(", ")}` : `\n${failed} runs failed`);
process.exitCode = failed === 0 ? 0 : 1;
