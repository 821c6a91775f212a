// Bundles the page of the dashboard, dashboard/, into a module of three texts, so that nothing has to be read
// from disk or from the network at run time.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildSync } from "esbuild";

const root = join(import.meta.dirname, "..");
const page = join(root, "dashboard");
export const generatedPage = join(root, "src", "dashboard", "page.generated.ts");
/** What is bundled, for the licences. */
export const PAGE_PACKAGES = ["preact", "uplot"];

/** The module as it should be. */
export function pageModule() {
  const common = { bundle: true, minify: true, write: false, target: ["es2022"], legalComments: "none" };
  const js = buildSync({
    ...common,
    entryPoints: [join(page, "main.tsx")],
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const imports = '@import "uplot/dist/uPlot.min.css"; @import "./app.css";';
  const css = buildSync({ ...common, stdin: { contents: imports, resolveDir: page, loader: "css" } });
  const textOf = ({ outputFiles: [file] }) => JSON.stringify(file.text);
  return [
    "// Made by scripts/dashboard.mjs from dashboard/. Do not edit.",
    `export const HTML: string = ${JSON.stringify(readFileSync(join(page, "index.html"), "utf8"))};`,
    `export const JS: string = ${textOf(js)};`,
    `export const CSS: string = ${textOf(css)};`,
    "",
  ].join("\n");
}

export function writePage() {
  writeFileSync(generatedPage, pageModule());
}
