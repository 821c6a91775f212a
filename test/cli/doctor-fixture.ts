// What the tests of `doctor` share: a run of it, and what it found.

import { expect } from "vitest";
import type { Finding } from "../../src/index.ts";
import type { Sandbox } from "./fixture.ts";

export interface Diagnosis {
  readonly code: number | null;
  /** `id level`, each once. */
  readonly found: readonly string[];
  readonly findings: readonly Finding[];
}

export async function diagnoseIn(box: Sandbox, url: string): Promise<Diagnosis> {
  const { code, stdout, stderr } = await box.call(["doctor", "--store", url, "--json"]);
  expect(stderr).toBe("");
  const { findings } = JSON.parse(stdout) as { findings: Finding[] };
  for (const { what, why, fix } of findings)
    expect(Math.min(what.length, why.length, fix.length)).toBeGreaterThan(10);
  return { code, findings, found: [...new Set(findings.map(({ id, level }) => `${id} ${level}`))].sort() };
}

/** Of what was found, without what depends on the version that this machine has. */
export const badly = ({ found }: Diagnosis): readonly string[] =>
  found.filter((one) => !one.startsWith("old-"));

/** Starts something, and stops it when the test is over. */
export async function on<T extends { stop(): Promise<void> }>(
  server: Promise<T>,
  run: (server: T) => Promise<void>,
): Promise<void> {
  const started = await server;
  try {
    await run(started);
  } finally {
    await started.stop();
  }
}
