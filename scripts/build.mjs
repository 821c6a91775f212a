// Embeds scripts and statements, compiles src/ into dist/ by plain tsc, finishes the output and bundles
// the command.
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { writePage } from "./dashboard.mjs";
import { finishBuild } from "./finish-build.mjs";
import { writeGenerated } from "./lua.mjs";
import { writeSql } from "./sql.mjs";

const root = join(import.meta.dirname, "..");
const require = createRequire(import.meta.url);
const tsc = join(dirname(require.resolve("typescript/package.json")), "bin", "tsc");

writeGenerated();
writeSql();
writePage();
rmSync(join(root, "dist"), { recursive: true, force: true });
execFileSync(process.execPath, [tsc, "-p", join(root, "tsconfig.build.json")], {
  stdio: "inherit",
  cwd: root,
});
const dist = join(root, "dist");
finishBuild(dist);
execFileSync(process.execPath, [join(import.meta.dirname, "bundle-command.mjs"), dist], { stdio: "inherit" });
