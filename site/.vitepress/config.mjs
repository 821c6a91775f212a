// The pages of this repository as a site: README.md, docs/ and the pages beside them. `npm run docs` builds
// it into site/dist, with search in the browser and without any request to the internet.

import { cpSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { defineConfig } from "vitepress";

const root = join(import.meta.dirname, "..", "..");
const pages = join(import.meta.dirname, "..", ".tmp", "pages");
const PAGES = ["README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY", "CHANGELOG"].map((name) => `${name}.md`);

// A copy, because pages are compiled to modules that import packages of this folder.
rmSync(pages, { recursive: true, force: true });
for (const path of [...PAGES, "docs", "examples/README.md", "examples/fencing/README.md"]) {
  mkdirSync(dirname(join(pages, path)), { recursive: true });
  cpSync(join(root, path), join(pages, path), { recursive: true });
}

/** Title and link of each page that a heading of docs/README.md lists, in the order of the page. */
function sidebar() {
  const index = readFileSync(join(root, "docs", "README.md"), "utf8");
  const groups = index.split(/^## /m).slice(1);
  return [
    { text: "Start", items: [page("Overview", "../README.md"), page("Quickstart", "quickstart.md")] },
    ...groups.map((group) => ({
      text: group.split("\n", 1)[0],
      collapsed: false,
      items: [...group.matchAll(/\[([^\]]+)\]\(([^)#]+\.md)\)/g)].map(([, text, link]) => page(text, link)),
    })),
  ];
}

function page(text, link) {
  const { pathname } = new URL(link, "http://docs/docs/");
  return { text, link: pathname.replace(/README\.md$/, "").replace(/\.md$/, "") };
}

/** Blocks of mermaid are drawn by theme/mermaid.vue. Languages that no highlighter knows are text. */
function blocks(md) {
  const { fence } = md.renderer.rules;
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const token = tokens[index];
    const [language = ""] = token.info.trim().split(" ");
    if (language === "mermaid") return `<Mermaid code="${encodeURIComponent(token.content)}" />`;
    token.info = ["redis", "etcdctl", "zkcli"].includes(language) ? "txt" : language;
    return fence(tokens, index, ...rest);
  };
}

export default defineConfig({
  title: "holdfast",
  description: "Distributed locks for Node.js and the shell.",
  srcDir: ".tmp/pages",
  outDir: "dist",
  cacheDir: ".tmp/cache",
  rewrites: { "README.md": "index.md", ":path(.*)/README.md": ":path/index.md" },
  // Links to sources and licences, which are no pages. test/docs/links.test.ts checks all links.
  ignoreDeadLinks: true,
  markdown: { config: blocks },
  themeConfig: {
    search: { provider: "local" },
    outline: "deep",
    sidebar: sidebar(),
    nav: [
      { text: "Quickstart", link: "/docs/quickstart" },
      { text: "Documentation", link: "/docs/" },
      { text: "API", link: "/docs/reference/api" },
    ],
  },
});
