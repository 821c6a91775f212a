// The licences of packages whose code is inside ours.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const PACKAGE = /.*node_modules[/\\]((?:@[^/\\]+[/\\])?[^/\\]+)[/\\]/;

/**
 * @param {string} file what to write
 * @param {readonly string[]} modules paths of the modules in the bundle
 * @param {readonly string[]} packages bundled elsewhere
 */
export function writeLicenses(file, modules, packages) {
  const found = modules.flatMap((path) => PACKAGE.exec(path)?.[1]?.replaceAll("\\", "/") ?? []);
  const names = new Set([...found, ...packages]);
  const texts = [...names].sort().map((name) => {
    const folder = join(root, "node_modules", name);
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const license = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
    if (license === undefined) throw new Error(`${name} is bundled and has no licence file`);
    return `${name} ${version}\n\n${readFileSync(join(folder, license), "utf8").trim()}\n`;
  });
  writeFileSync(file, texts.join(`\n${"-".repeat(78)}\n\n`));
}
