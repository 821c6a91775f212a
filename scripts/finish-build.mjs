// What follows the compiler: turns its output, dist/, into what the package contains.
//
// 1. Comments go from the JavaScript. The package has the sources, which the declaration maps point to.
// 2. Declarations that no public one leads to go.
// 3. dist/cjs is the CommonJS copy: for Jest, and for TypeScript projects that compile to CommonJS. Node
//    itself never loads it: `require("holdfast")` finds the ES modules by the condition `module-sync`.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { transformSync } from "esbuild";

/** Programs, which nobody imports. */
const PROGRAMS = /^(cjs|cli|demo)\//;
/** A program that the conformance suite starts. It needs no copy of its own. */
const CHILD = "testing/child.js";
const URL_OF_FILE = 'const urlOfFile = require("node:url").pathToFileURL(__filename).href;';
const COMMON = { platform: "node", target: "node20" };

/** @param {string} dist the compiled ES modules */
export function finishBuild(dist) {
  removeComments(dist);
  removePrivateDeclarations(dist);
  writeCommonJs(dist);
}

function removeComments(dist) {
  for (const name of filesOf(dist, ".js")) {
    const path = join(dist, name);
    writeFileSync(path, transformSync(readFileSync(path, "utf8"), { ...COMMON, format: "esm" }).code);
  }
}

function removePrivateDeclarations(dist) {
  const manifest = JSON.parse(readFileSync(join(import.meta.dirname, "..", "package.json"), "utf8"));
  const entries = Object.values(manifest.exports).flatMap((target) => target.import?.types ?? []);
  const reached = new Set();
  const visit = (name) => {
    if (reached.has(name)) return;
    reached.add(name);
    const text = readFileSync(join(dist, name), "utf8");
    for (const [, specifier] of text.matchAll(/(?:from|import|import\() ?"(\.[^"]+)\.ts"/g))
      visit(normalize(join(dirname(name), `${specifier}.d.ts`)));
  };
  for (const entry of entries) visit(normalize(entry.replace(/^\.\/dist\//, "")));
  for (const name of filesOf(dist, ".d.ts")) {
    if (reached.has(name)) continue;
    rmSync(join(dist, name));
    rmSync(join(dist, `${name}.map`), { force: true });
  }
}

function writeCommonJs(dist) {
  mkdirSync(join(dist, "cjs"), { recursive: true });
  const scripts = filesOf(dist, ".js").filter((name) => !PROGRAMS.test(name));
  for (const name of [...scripts, ...filesOf(dist, ".d.ts")]) {
    const [from, to] = [join(dist, name), join(dist, "cjs", name)];
    mkdirSync(dirname(to), { recursive: true });
    if (name.endsWith(".d.ts")) copyFileSync(from, to);
    else if (name === CHILD) writeFileSync(to, `import("../../${CHILD}");\n`);
    else writeFileSync(to, commonJsOf(readFileSync(from, "utf8")));
  }
  writeFileSync(join(dist, "cjs", "package.json"), '{ "type": "commonjs" }\n');
}

/** The import of a client, as esbuild writes it. Bundlers accept a missing one inside `try` only. */
const LOADED_CLIENT = /\.then\(\(\)\s*=>\s*(__toESM\(require\("[@a-z][^."]*"\)\))\)/g;
const TRIED_CLIENT = ".then(() => { try { return $1; } catch (error) { throw error; } })";

function commonJsOf(source) {
  const { code } = transformSync(source, {
    ...COMMON,
    format: "cjs",
    minifyWhitespace: true,
    // Jest cannot run import() in CommonJS. Every client that is loaded on demand can be required.
    supported: { "dynamic-import": false },
    define: { "import.meta.url": "urlOfFile" },
  });
  const text = code.replaceAll(LOADED_CLIENT, TRIED_CLIENT);
  return /\burlOfFile\b/.test(text) ? `${URL_OF_FILE}\n${text}` : text;
}

function filesOf(dist, extension) {
  return readdirSync(dist, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(extension));
}
