// The worker's side: say ready, wait for the starting shot, print the result.

export function settings<T>(): T {
  return JSON.parse(process.argv[2] ?? "{}") as T;
}

export function startingShot(): Promise<void> {
  process.stdout.write("ready\n");
  return new Promise((resolve) => {
    process.stdin.once("data", () => resolve()).resume();
  });
}

/** Monotonic ms, comparable between processes of one machine. */
export function monoMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export function report(result: object): void {
  process.stdout.write(JSON.stringify(result), () => process.exit(0));
}
