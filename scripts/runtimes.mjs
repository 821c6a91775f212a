// `npm run runtimes -- [22 24 26 bun deno mixed]`: the conformance suite of memory and local on other
// versions of Node, on Bun, on Deno, and with children of all of them in one directory. npm installs each
// runtime into a folder of its own, which needs the network the first time. `npm test` does not run this:
// it tests the Node that runs it.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { arch, homedir } from "node:os";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const cpu = arch() === "arm64" ? { bun: "aarch64", deno: "arm64" } : { bun: "x64", deno: "x64" };
const PACKAGES = {
  bun: { name: `@oven/bun-linux-${cpu.bun}`, program: "bin/bun", args: [] },
  deno: { name: `@deno/linux-${cpu.deno}-glibc`, program: "deno", args: ["run", "-A"] },
};
const node = (version) => ({ name: `node-linux-${arch()}@${version}`, program: "bin/node", args: [] });
const MIXED = ["24", "bun", "deno"];

/** The program and its arguments, installed if it is missing. */
function commandOf(wanted) {
  const { name, program, args } = PACKAGES[wanted] ?? node(wanted);
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), ".cache");
  const place = join(cache, "holdfast", "runtimes", wanted);
  const path = join(place, "node_modules", name.replace(/(?<=.)@[^/]*$/, ""), program);
  if (!existsSync(path)) {
    mkdirSync(place, { recursive: true });
    const install = ["install", "--prefix", place, "--no-audit", "--no-fund", "--ignore-scripts", name];
    execFileSync("npm", install, { stdio: "inherit" });
  }
  return [path, ...args];
}

function run(title, [program, ...args], store, env = {}) {
  const startMs = performance.now();
  const { status, stdout, stderr } = spawnSync(program, [...args, "scripts/conformance.mjs", store], {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, ...env },
  });
  const seconds = ((performance.now() - startMs) / 1_000).toFixed(0);
  console.log(`${title.padEnd(24)} ${seconds.padStart(4)} s  ${stdout?.trim().split("\n").at(-1) ?? ""}`);
  if (status !== 0) console.log(stdout, stderr);
  return status === 0;
}

const chosen = process.argv.slice(2);
const wanted = chosen.length > 0 ? chosen : ["22", "24", "26", "bun", "deno", "mixed"];
let isGood = true;
for (const one of wanted) {
  if (one === "mixed") {
    const runtimes = JSON.stringify(MIXED.map(commandOf));
    isGood =
      run("local, mixed children", [process.execPath], "local", { HOLDFAST_TEST_RUNTIMES: runtimes }) &&
      isGood;
    continue;
  }
  const command = commandOf(one);
  const version = execFileSync(command[0], ["--version"], { encoding: "utf8" }).split("\n")[0];
  const name = `${one === "bun" ? "bun " : ""}${version}`.replace(/ \(.*/, "");
  for (const store of ["memory", "local"]) isGood = run(`${store}, ${name}`, command, store) && isGood;
}
process.exitCode = isGood ? 0 : 1;
