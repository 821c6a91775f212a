// Bundles the compiled command: dist/cli becomes one program and one chunk for each store and each command,
// loaded when used. Reading one file instead of a hundred is most of what a start costs.
//
// The bundle is CommonJS, because Node starts that some milliseconds faster than ES modules. It contains
// commander, so the package depends on nothing; the clients of servers stay outside.
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { rolldown } from "rolldown";
import { PAGE_PACKAGES } from "./dashboard.mjs";
import { writeLicenses } from "./licenses.mjs";

const root = join(import.meta.dirname, "..");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/** @param {string} dist the finished build */
async function bundleCommand(dist) {
  await writeManPages(dist);
  const bundle = await rolldown({
    input: join(dist, "cli", "main.js"),
    platform: "node",
    external: Object.keys(manifest.peerDependencies).map((name) => new RegExp(`^${name}(/|$)`)),
    transform: { define: { HOLDFAST_VERSION: JSON.stringify(manifest.version) } },
  });
  const { output } = await bundle.generate({
    format: "cjs",
    minify: true,
    entryFileNames: "main.js",
    chunkFileNames: (chunk) => `${chunkName(dist, chunk)}.js`,
  });
  await bundle.close();
  const folder = join(dist, "cli");
  rmSync(folder, { recursive: true });
  mkdirSync(folder);
  for (const { fileName, code } of output) writeFileSync(join(folder, fileName), code);
  writeFileSync(join(folder, "package.json"), '{ "type": "commonjs" }\n');
  chmodSync(join(folder, "main.js"), 0o755);
  writeLicenses(
    join(dist, "third-party-licenses.txt"),
    output.flatMap(({ moduleIds }) => moduleIds),
    PAGE_PACKAGES,
  );
}

/** Made by the compiled command, before the bundle replaces it. */
async function writeManPages(dist) {
  const { manPages } = await import(pathToFileURL(join(dist, "cli", "man.js")).href);
  mkdirSync(join(dist, "man"), { recursive: true });
  for (const { file, text } of manPages(manifest.version)) writeFileSync(join(dist, "man", file), text);
}

/** redis-store for stores/redis/store.js. */
function chunkName(dist, { facadeModuleId, name }) {
  if (!facadeModuleId) return name;
  const path = relative(dist, facadeModuleId).replace(/\.js$/, "");
  return path
    .replace(/^(stores|cli)[/\\]/, "")
    .split(sep)
    .join("-");
}

await bundleCommand(process.argv[2]);
