// Load for `npm run repeat -- --load`: as many busy loops as there are processors, and one process that
// writes to the disk and waits for it. They end with the process that started them.
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";

const BUSY = `
process.on("disconnect", () => process.exit());
const work = () => {
  const endMs = performance.now() + 50;
  while (performance.now() < endMs) Math.sqrt(endMs);
  setImmediate(work);
};
work();
`;

const WRITER = `
const { mkdtempSync, openSync, writeSync, fsyncSync, ftruncateSync, rmSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const folder = mkdtempSync(join(tmpdir(), "holdfast-load-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
process.on("disconnect", () => process.exit());
const file = openSync(join(folder, "data"), "w");
const piece = Buffer.alloc(1 << 20, 7);
let written = 0;
const work = () => {
  writeSync(file, piece, 0, piece.length, (written % 64) * piece.length);
  fsyncSync(file);
  written += 1;
  setTimeout(work, 5);
};
work();
`;

/** @returns {{ stop(): void }} */
export function startLoad() {
  const programs = [...Array.from({ length: availableParallelism() }, () => BUSY), WRITER];
  const children = programs.map((code) =>
    spawn(process.execPath, ["-e", code], { stdio: ["ignore", "ignore", "inherit", "ipc"] }),
  );
  return {
    stop() {
      for (const child of children) child.disconnect();
    },
  };
}
