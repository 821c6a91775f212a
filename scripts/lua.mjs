// Turns src/stores/redis/scripts/*.lua into a module, so that nothing has to be read from disk at run time. The comments stay
// behind, `--@include NAME` is replaced by that file, and each script carries its SHA-1, by which Redis knows it.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = join(import.meta.dirname, "..", "src", "stores", "redis");
export const generatedPath = join(folder, "scripts.generated.ts");

/** What is only included by others is no script of its own. */
const LIBRARIES = new Set(["clock", "rules"]);

function textOf(name) {
  return readFileSync(join(folder, "scripts", `${name}.lua`), "utf8")
    .split("\n")
    .map((line) => {
      const included = /^--@include (\w+)$/.exec(line);
      return included === null ? line.trim() : textOf(included[1]);
    })
    .filter((line) => line !== "" && !line.startsWith("--"))
    .join("\n");
}

/** The module as it should be. */
export function generated() {
  const names = readdirSync(join(folder, "scripts"))
    .map((file) => file.replace(/\.lua$/, ""))
    .filter((name) => !LIBRARIES.has(name))
    .sort();
  const rows = names.map((name) => {
    const text = textOf(name);
    const sha = createHash("sha1").update(text).digest("hex");
    return `  ${name}: { name: ${JSON.stringify(name)}, sha: ${JSON.stringify(sha)}, text: ${JSON.stringify(text)} },`;
  });
  return [
    "// The scripts of src/stores/redis/scripts, made by scripts/lua.mjs: change those files and run `npm run build`.",
    "",
    'import type { Script } from "./port.ts";',
    "",
    `export type ScriptName = ${names.map((name) => JSON.stringify(name)).join(" | ")};`,
    "",
    "export const scripts: Readonly<Record<ScriptName, Script>> = {",
    ...rows,
    "};",
    "",
  ].join("\n");
}

export function writeGenerated() {
  writeFileSync(generatedPath, generated());
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeGenerated();
