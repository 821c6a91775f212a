// A folder inside the project in which blocks of documentation are compiled and run against the built package: there,
// `import ... from "holdfast"` means dist/, by the package's own name.

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { transformSync } from "esbuild";
import type { Block } from "./blocks.ts";

const root = join(import.meta.dirname, "..", "..");
const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");
/** Ends a program that hangs. */
const RUN_MS = 150_000;

export interface Ran {
  readonly ok: boolean;
  readonly stdout: string;
  /** Everything it said, and how it ended. */
  readonly said: string;
}

export class Workshop {
  readonly folder: string;
  readonly #programs = new Map<string, string>();

  constructor() {
    mkdirSync(join(root, ".tmp"), { recursive: true });
    this.folder = mkdtempSync(join(root, ".tmp", "docs-"));
    const options = {
      noEmit: true,
      noUnusedLocals: false,
      noUnusedParameters: false,
      isolatedDeclarations: false,
    };
    const config = {
      extends: "../../tsconfig.json",
      compilerOptions: options,
      include: ["*.ts"],
      exclude: [],
    };
    writeFileSync(join(this.folder, "tsconfig.json"), JSON.stringify(config));
  }

  /** Puts a program in the folder. An empty export makes it a module, in which `await` may stand alone. */
  add(block: Block, source: string): string {
    const name = `${block.file.replace(/[^\w]+/g, "-")}-${block.line}.ts`;
    writeFileSync(join(this.folder, name), `${source}export {};\n`);
    this.#programs.set(name, `${block.file}:${block.line}`);
    return join(this.folder, name);
  }

  /** Compiles all programs at once; one line per mistake, each with the place of its block. */
  async compile(): Promise<string[]> {
    const ran = await this.node([tsc, "-p", this.folder, "--pretty", "false"]);
    if (ran.ok) return [];
    const lines = ran.said.split("\n").filter((line) => line.trim() !== "");
    return lines.map((line) =>
      line.replace(/^.*?([\w-]+\.ts)\((\d+),\d+\)/, (_all, name: string, at: string) =>
        this.#place(name, at),
      ),
    );
  }

  run(path: string, env: Readonly<Record<string, string>> = {}): Promise<Ran> {
    const program = path.replace(/\.ts$/, ".mjs");
    const { code } = transformSync(readFileSync(path, "utf8"), { loader: "ts", target: "node20" });
    writeFileSync(program, code);
    return this.node([program], env);
  }

  /** `npx holdfast` as it would be after an installation. */
  command(line: string, env: Readonly<Record<string, string>>): Promise<Ran> {
    const script = line.replace(
      /\bnpx holdfast\b/g,
      `"${process.execPath}" "${join(root, "dist", "cli", "main.js")}"`,
    );
    return this.#execute("/bin/sh", ["-c", script], env);
  }

  node(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ran> {
    return this.#execute(process.execPath, args, env);
  }

  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  #place(name: string, line: string): string {
    return `${this.#programs.get(name) ?? name} (line ${line} of the program)`;
  }

  #execute(file: string, args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ran> {
    return new Promise((resolve) => {
      const options = {
        cwd: this.folder,
        env: { ...process.env, ...env },
        timeout: RUN_MS,
        killSignal: "SIGKILL",
      } as const;
      execFile(file, args, options, (error, stdout, stderr) => {
        const end = error === null ? "" : `ended with ${error.signal ?? `exit code ${error.code}`}`;
        resolve({ ok: error === null, stdout, said: `${stdout}${stderr}${end}` });
      });
    });
  }
}
