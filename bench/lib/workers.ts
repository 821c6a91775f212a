// Starts worker processes, lets them begin together, and collects the one JSON line that each prints at its end.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Measures the package as it is published, as the suites do. */
const BUILT = new URL("../built.mjs", import.meta.url).href;

export interface WorkerHandle<Result> {
  readonly pid: number;
  readonly ready: Promise<void>;
  go(): void;
  readonly result: Promise<Result>;
}

export function startWorker<Result>(file: string, settings: object): WorkerHandle<Result> {
  const path = fileURLToPath(new URL(`../workers/${file}`, import.meta.url));
  const loader = file.endsWith(".ts") ? ["--import", BUILT] : [];
  const child = spawn(process.execPath, [...loader, path, JSON.stringify(settings)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  let text = "";
  let sawReady: () => void = () => {};
  const ready = new Promise<void>((resolve) => {
    sawReady = resolve;
  });
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
    if (text.startsWith("ready\n")) sawReady();
  });
  const result = new Promise<Result>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(JSON.parse(text.slice("ready\n".length)) as Result);
      else reject(new Error(`worker ${file} ended with ${code}`));
    });
  });
  return { pid: child.pid ?? 0, ready, result, go: () => child.stdin.end("go\n") };
}

export async function together<Result>(file: string, settings: readonly object[]): Promise<Result[]> {
  const workers = settings.map((one) => startWorker<Result>(file, one));
  await Promise.all(workers.map((worker) => Promise.race([worker.ready, worker.result])));
  for (const worker of workers) worker.go();
  return Promise.all(workers.map((worker) => worker.result));
}
