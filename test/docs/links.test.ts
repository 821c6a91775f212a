// Every relative link of a Markdown file leads to a file that exists, and to a heading of that file. So does every
// path of a page that a comment, a message or a script names.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { readTree } from "../tidy/tree.ts";

const root = join(import.meta.dirname, "..", "..");
const files = readTree(root);
const pages = files.filter(({ path }) => path.endsWith(".md") || path === "llms.txt");

/** Blocks and spans of code hold no links. */
function prose(text: string): string {
  return text
    .replaceAll(/^( *)(`{3,}|~{3,})[\s\S]*?^\1\2 *$/gm, "")
    .replaceAll(/`[^`\n]*`/g, "")
    .replaceAll(/<!--[\s\S]*?-->/g, "");
}

/** The anchor of a heading, as GitHub and the site make it. */
function anchor(heading: string): string {
  return heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
}

function anchorsOf(text: string): Set<string> {
  const withoutCode = text.replaceAll(/^( *)(`{3,}|~{3,})[\s\S]*?^\1\2 *$/gm, "");
  const headings = Array.from(withoutCode.matchAll(/^#{1,6} +(.+)$/gm), ([, title]) =>
    anchor(title as string),
  );
  const explicit = Array.from(withoutCode.matchAll(/<a id="([^"]+)"/g), ([, id]) => id as string);
  return new Set([...headings, ...explicit]);
}

function brokenLinks(path: string, text: string): string[] {
  const links = Array.from(prose(text).matchAll(/\]\(([^)\s]+)\)|\b(?:src|href)="([^"]+)"/g));
  return links.flatMap(([, inText, inTag]) => {
    const link = (inText ?? inTag) as string;
    if (/^[a-z]+:/.test(link)) return [];
    const [file = "", heading] = link.split("#");
    const target = file === "" ? path : join(dirname(path), file);
    if (!existsSync(join(root, target))) return [`${path}: ${link}`];
    if (heading === undefined || anchorsOf(readFileSync(join(root, target), "utf8")).has(heading)) return [];
    return [`${path}: ${link}: no such heading`];
  });
}

it("every link of a page leads to a file and a heading that exist", () => {
  expect(pages.length).toBeGreaterThan(20);
  expect(pages.flatMap(({ path, text }) => brokenLinks(path, text))).toEqual([]);
});

it("every page that code or a message names exists", () => {
  const named = files
    .filter(({ path }) => !path.startsWith("test/tidy/rules.test"))
    .flatMap(({ path, text }) =>
      Array.from(text.matchAll(/(?<![\w/.:])docs\/[\w./-]+\.md\b/g), ([page]) => ({ path, page })),
    );
  expect(named.length).toBeGreaterThan(10);
  const missing = named.filter(({ page }) => !existsSync(join(root, page)));
  expect(missing.map(({ path, page }) => `${path}: ${page}`)).toEqual([]);
});

it("a link to nothing, or to a heading that is not there, is found", () => {
  expect(brokenLinks("a.md", "see [b](no-such.md) and `[c](no.md)`")).toEqual(["a.md: no-such.md"]);
  expect(brokenLinks("README.md", "[x](ARCHITECTURE.md#nothing-here)")).toEqual([
    "README.md: ARCHITECTURE.md#nothing-here: no such heading",
  ]);
});
