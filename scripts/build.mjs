// Embeds scripts and statements, compiles src/ into dist/ by plain tsc, finishes the output and makes the
// command executable.
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { finishBuild } from "./finish-build.mjs";
import { writeGenerated } from "./lua.mjs";
import { writeSql } from "./sql.mjs";

const root = join(import.meta.dirname, "..");
const require = createRequire(import.meta.url);
const tsc = join(dirname(require.resolve("typescript/package.json")), "bin", "tsc");

writeGenerated();
writeSql();
rmSync(join(root, "dist"), { recursive: true, force: true });
execFileSync(process.execPath, [tsc, "-p", join(root, "tsconfig.build.json")], {
  stdio: "inherit",
  cwd: root,
});
finishBuild(join(root, "dist"));
const command = join(root, "dist", "cli", "main.js");
if (existsSync(command)) chmodSync(command, 0o755);
