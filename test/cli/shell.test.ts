// What surrounds the command in a shell: completion, and the report on a descriptor of its own.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeProgram } from "../../src/cli/program.ts";
import { manPages } from "../../src/cli/man.ts";
import { Sandbox } from "./fixture.ts";

let box: Sandbox;
beforeAll(() => void (box = new Sandbox()));
afterAll(() => box.close());

const program = makeProgram({ parsed: () => {}, ended: () => {} });
const options = program.commands.flatMap((command) => command.options.map(({ long }) => long as string));

async function completion(shell: string): Promise<string> {
  const { code, stdout } = await box.run(["completion", shell]);
  expect(code).toBe(0);
  return stdout;
}

describe("holdfast completion", () => {
  it.each(["bash", "zsh", "fish"])("of %s names every command and every option", async (shell) => {
    const text = await completion(shell);
    for (const command of program.commands) expect(text).toContain(command.name());
    for (const option of options)
      expect(text).toContain(shell === "fish" ? `-l ${option.slice(2)} ` : option);
  });

  it("completes commands, options, values and the COMMAND of run in a real bash", async () => {
    const script = await completion("bash");
    const show = `COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const completed = (...words: string[]): string[] =>
      execFileSync(
        "bash",
        [
          "-c",
          `${script}
${show}`,
          "bash",
          ...words,
        ],
        { encoding: "utf8" },
      )
        .trim()
        .split("\n");
    expect(completed("holdfast", "do")).toEqual(["doctor"]);
    expect(completed("holdfast", "run", "--on")).toEqual(["--on-lost"]);
    expect(completed("holdfast", "run", "--on-lost", "")).toEqual(["term", "kill", "warn"]);
    expect(completed("holdfast", "run", "--ttl", "")).toEqual([""]);
    expect(completed("holdfast", "run", "k", "--", "basenam")).toContain("basename");
    expect(completed("holdfast", "completion", "")).toEqual(expect.arrayContaining(["bash", "zsh", "fish"]));
  });

  it("of another shell is wrong usage", async () => {
    const { code, stderr } = await box.run(["completion", "tcsh"]);
    expect([code, stderr]).toEqual([64, expect.stringMatching(/^holdfast: .*bash, zsh, fish.*\n$/)]);
  });
});

describe("the manual pages", () => {
  it("are one for the command and one for each of its commands, with every option", () => {
    const pages = manPages("1.2.3");
    expect(pages.map(({ file }) => file)).toEqual(
      ["holdfast", ...program.commands.map((command) => `holdfast-${command.name()}`)].map(
        (name) => `${name}.1`,
      ),
    );
    for (const command of program.commands) {
      const page = pages
        .find(({ file }) => file === `holdfast-${command.name()}.1`)
        ?.text.replaceAll("\\-", "-");
      for (const { flags } of command.options) expect(page).toContain(`.B ${flags}\n`);
    }
    // A line that begins with a dot is a request: none comes from the text of an option.
    const requests = pages.flatMap(({ text }) => text.match(/^\.\w+/gm) ?? []);
    expect([...new Set(requests)].toSorted()).toEqual([".B", ".BR", ".I", ".SH", ".TH", ".TP", ".fi", ".nf"]);
  });
});

describe("run --json-to", () => {
  const shell = (line: string): Promise<{ code: number | null; stdout: string; stderr: string }> =>
    box.spawn("sh", ["-c", line], { HOLDFAST_STORE: box.store, MAIN: `${process.execPath} ${box.main}` })
      .ended;

  it("writes the object to a file, and hides the descriptor from COMMAND", async () => {
    const file = box.file("report.json");
    const { code } = await shell(`$MAIN run --json-to 3 k -- sh -c '! echo x >&3' 3>'${file}' 2>/dev/null`);
    expect(code).toBe(0);
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ key: "k", outcome: "ended", exitCode: 0 });
  });

  it("writes it to a pipe with any number", async () => {
    const { stdout } = await shell("$MAIN run -q --json-to 9 k -- true 9>&1 >/dev/null | cat");
    expect(JSON.parse(stdout)).toMatchObject({ outcome: "ended" });
  });

  it("of a descriptor that is not open, or is Node's own, is wrong usage", async () => {
    for (let fd = 4; fd < 40; fd += 9) {
      const { code, stdout, stderr } = await shell(`$MAIN run --json-to ${fd} k -- echo ran`);
      expect([code, stdout, stderr]).toEqual([
        64,
        "",
        expect.stringContaining(`--json-to must be an open descriptor, got ${fd}`),
      ]);
    }
  });
});
