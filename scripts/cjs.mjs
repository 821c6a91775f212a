// The CommonJS copy of the build, dist/cjs: for Jest, and for TypeScript projects that compile to CommonJS.
// Node itself never loads it: `require("holdfast")` finds the ES modules by the condition `module-sync`, so
// one process has one copy of the state.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { transformSync } from "esbuild";

/** Programs, which nobody imports. */
const PROGRAMS = /^(cjs|cli|demo)\//;
/** A program that the conformance suite starts. It needs no copy of its own. */
const CHILD = "testing/child.js";
const URL_OF_FILE = 'const urlOfFile = require("node:url").pathToFileURL(__filename).href;';

/** @param {string} dist the compiled ES modules */
export function writeCommonJs(dist) {
  const names = readdirSync(dist, { recursive: true, encoding: "utf8" }).filter(
    (name) => !PROGRAMS.test(name),
  );
  mkdirSync(join(dist, "cjs"), { recursive: true });
  writeFileSync(join(dist, "cjs", "package.json"), '{ "type": "commonjs" }\n');
  for (const name of names) {
    const [from, to] = [join(dist, name), join(dist, "cjs", name)];
    mkdirSync(dirname(to), { recursive: true });
    if (name.endsWith(".d.ts")) copyFileSync(from, to);
    if (name === CHILD) writeFileSync(to, `import("../../${CHILD}");\n`);
    else if (name.endsWith(".js")) writeFileSync(to, commonJsOf(readFileSync(from, "utf8")));
  }
}

function commonJsOf(text) {
  const { code } = transformSync(text, {
    format: "cjs",
    platform: "node",
    target: "node20",
    // Jest cannot run import() in CommonJS. Every client that is loaded on demand can be required.
    supported: { "dynamic-import": false },
    define: { "import.meta.url": "urlOfFile" },
  });
  return /\burlOfFile\b/.test(code) ? `${URL_OF_FILE}\n${code}` : code;
}
