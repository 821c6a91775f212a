// examples/scheduling: every `holdfast run` in a crontab, a unit or a manifest works as it is written, with a
// store of this machine and another COMMAND.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { Sandbox } from "../cli/fixture.ts";

const folder = join(import.meta.dirname, "..", "..", "examples", "scheduling");
const read = (name: string): string => readFileSync(join(folder, name), "utf8");

let box: Sandbox;
beforeAll(() => void (box = new Sandbox()));
afterAll(() => box.close());

/** The arguments up to `--`, without the store. */
function argsIn(line: string): readonly string[] {
  const words = line.trim().split(/\s+/);
  const own = words.slice(words.indexOf("run"), words.indexOf("--"));
  const at = own.indexOf("--store");
  return at === -1 ? own : own.toSpliced(at, 2);
}

async function expectRuns(line: string): Promise<void> {
  const args = [...argsIn(line), "--", "echo", "ran"];
  const first = await box.run(args);
  expect([first.code, first.stdout, first.stderr], line).toEqual([0, "ran\n", ""]);
}

interface Container {
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string }[];
}

interface PodSpec {
  readonly spec: { readonly containers: readonly Container[] };
}

describe("examples/scheduling", () => {
  it("has a line for cron that leaves out the hosts that come second", async () => {
    const line = read("crontab")
      .split("\n")
      .find((one) => one.startsWith("*")) as string;
    await expectRuns(line);
    const second = await box.run([...argsIn(line), "--", "echo", "ran"]);
    expect([second.code, second.stdout, second.stderr]).toEqual([0, "", ""]);
  });

  it("has a systemd service that a busy key does not fail", async () => {
    const unit = read("backup.service");
    const line = /^ExecStart=(.*)$/m.exec(unit)?.[1] as string;
    await expectRuns(line);
    const second = await box.run([...argsIn(line), "--", "echo", "ran"]);
    expect(unit).toContain(`\nSuccessExitStatus=${second.code}\n`);
    expect(second.code).toBe(75);
  });

  it("has manifests for Kubernetes whose containers run", async () => {
    const documents = parseAllDocuments(read("kubernetes.yaml")).map(
      (document) => document.toJS() as unknown,
    );
    const [job, deployment] = documents as [
      { readonly spec: { readonly jobTemplate: { readonly spec: { readonly template: PodSpec } } } },
      { readonly spec: { readonly template: PodSpec } },
    ];
    for (const { spec } of [job.spec.jobTemplate.spec.template, deployment.spec.template])
      for (const { args, env } of spec.containers) {
        await expectRuns(args.join(" "));
        expect(env.map(({ name }) => name)).toContain("HOLDFAST_STORE");
      }
  });

  it("has no other file that is not looked at", () => {
    expect(readdirSync(folder).toSorted()).toEqual([
      "Dockerfile",
      "backup.service",
      "backup.timer",
      "crontab",
      "kubernetes.yaml",
    ]);
    expect(read("backup.timer")).toMatch(/^OnCalendar=\*-\*-\* \d\d:\d\d:\d\d$/m);
    expect(read("Dockerfile")).toMatch(/^ENTRYPOINT \["tini", "-g", "--", "holdfast"\]$/m);
  });
});
