// Turns the scripts of each store that has some into a module, so that nothing has to be read from disk at run time. The comments
// stay behind, `--@include NAME` is replaced by that file, and each script carries its SHA-1, by which Redis knows it.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const stores = join(import.meta.dirname, "..", "src", "stores");

/** What is only included by others is no script of its own. */
const LIBRARIES = new Set("clock head time record ledger rules guarded marker absence voter".split(" "));

/** The stores that have scripts. */
export const scriptedStores = ["redis", "redlock"];

export const generatedPath = (store) => join(stores, store, "scripts.generated.ts");

function textOf(store, name) {
  return readFileSync(join(stores, store, "scripts", `${name}.lua`), "utf8")
    .split("\n")
    .map((line) => {
      const included = /^\s*--@include ([\w-]+)$/.exec(line);
      return included === null ? line.trim() : textOf(store, included[1]);
    })
    .filter((line) => line !== "" && !line.startsWith("--"))
    .join("\n");
}

/** The module as it should be. */
export function generated(store) {
  const names = readdirSync(join(stores, store, "scripts"))
    .map((file) => file.replace(/\.lua$/, ""))
    .filter((name) => !LIBRARIES.has(name))
    .sort();
  const rows = names.map((name) => {
    const text = textOf(store, name);
    const sha = createHash("sha1").update(text).digest("hex");
    return `  ${/^\w+$/.test(name) ? name : JSON.stringify(name)}: { name: ${JSON.stringify(name)}, sha: ${JSON.stringify(sha)}, text: ${JSON.stringify(text)} },`;
  });
  return [
    `// The scripts of src/stores/${store}/scripts, made by scripts/lua.mjs: change those files and run \`npm run build\`.`,
    "",
    `import type { Script } from "${store === "redis" ? "." : "../redis"}/client/port.ts";`,
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
  for (const store of scriptedStores) writeFileSync(generatedPath(store), generated(store));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeGenerated();
