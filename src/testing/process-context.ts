// The context of a case at the level `process`: that of level `api`, and child processes.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiContext } from "./api-context.ts";
import { Child } from "./child-process.ts";

/** What a case at the level `process` works with. */
export class ProcessContext extends ApiContext {
  readonly #children: Child[] = [];
  #dir: string | null = null;

  async child(label = "child"): Promise<Child> {
    const store = this.subject.child?.();
    assert.ok(
      store,
      `the subject ${this.subject.name} must have \`child\`, because its scope is ${this.guarantees.scope}`,
    );
    const child = new Child({ store, namespace: this.namespace, label });
    this.#children.push(child);
    await child.call("ready", {});
    return child;
  }

  children(count: number): Promise<Child[]> {
    return Promise.all(Array.from({ length: count }, (_none, i) => this.child(`child ${i}`)));
  }

  /** The path of a file that all processes of this case share. */
  file(name: string): string {
    this.#dir ??= mkdtempSync(join(tmpdir(), "holdfast-suite-"));
    return join(this.#dir, name);
  }

  override async end(): Promise<void> {
    await Promise.all(this.#children.map((child) => child.kill()));
    await super.end();
    if (this.#dir !== null) rmSync(this.#dir, { recursive: true, force: true });
  }
}
