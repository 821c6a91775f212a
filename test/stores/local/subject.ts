// The local store as a subject of the conformance suite.

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { local, localGuarantees } from "../../../src/stores/local/index.ts";
import type { Server, Subject } from "../../../src/testing/index.ts";

/** In a directory of its own, which the "server" takes away at the end. */
export function localSubject(): { readonly store: Subject; readonly server: Server } {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-conformance-"));
  return {
    store: {
      name: "local",
      guarantees: localGuarantees,
      create: () => local({ dir }),
      child: () => ({ url: `local:${dir}` }),
      footprint: () => readdirSync(dir, { recursive: true }).length,
    },
    server: { stop: () => Promise.resolve(rmSync(dir, { recursive: true, force: true })) },
  };
}
