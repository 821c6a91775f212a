// The monotonic clock of the machine, which all processes of one boot share. In Node it is
// process.hrtime(). In Bun and Deno that clock starts with the process, so this file calls clock_gettime
// of the C library.

/** For clock_gettime(2) on Linux. */
const CLOCK_MONOTONIC = 1;
const LIBRARIES = ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"];

type ClockGettime = (clock: number, time: BigInt64Array) => number;

interface BunFfi {
  dlopen(
    name: string,
    symbols: object,
  ): { readonly symbols: { clock_gettime(clock: number, at: unknown): number } };
  ptr(view: BigInt64Array): unknown;
}

interface BunProcess {
  getBuiltinModule(name: "bun:ffi"): BunFfi;
}

interface DenoGlobal {
  dlopen(name: string, symbols: object): { readonly symbols: { clock_gettime: ClockGettime } };
}

/** Null if the runtime has only a clock that starts with the process, and cannot call the C library. */
export function machineClock(): (() => number) | null {
  const { bun, deno } = process.versions as { readonly bun?: string; readonly deno?: string };
  if (bun === undefined && deno === undefined) return hrtimeMs;
  if (process.platform !== "linux") return null;
  for (const name of LIBRARIES) {
    try {
      return clockOf(bun === undefined ? denoClock(name) : bunClock(name));
    } catch {
      // Another C library, or no permission to load one (deno run --allow-ffi).
    }
  }
  return null;
}

export function hrtimeMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

function clockOf(read: ClockGettime): () => number {
  const time = new BigInt64Array(2);
  const now = (): number => {
    if (read(CLOCK_MONOTONIC, time) !== 0) throw new Error("clock_gettime failed");
    return Number(time[0]) * 1e3 + Number(time[1]) / 1e6;
  };
  now();
  return now;
}

function bunClock(library: string): ClockGettime {
  // Not by import or require: a bundler would look for the module.
  const ffi = (process as unknown as BunProcess).getBuiltinModule("bun:ffi");
  const { symbols } = ffi.dlopen(library, { clock_gettime: { args: ["i32", "ptr"], returns: "i32" } });
  return (clock, time) => symbols.clock_gettime(clock, ffi.ptr(time));
}

function denoClock(library: string): ClockGettime {
  const { Deno } = globalThis as unknown as { readonly Deno: DenoGlobal };
  const { symbols } = Deno.dlopen(library, {
    clock_gettime: { parameters: ["i32", "buffer"], result: "i32" },
  });
  return (clock, time) => symbols.clock_gettime(clock, time);
}
