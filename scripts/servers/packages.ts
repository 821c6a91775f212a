// Where the program of a server comes from: PATH, else Debian's packages unpacked once into a cache folder of this user.
// Two processes may unpack at the same time: each fills a folder of its own and the first to rename it wins.

import { access, constants, mkdir, mkdtemp, readdir, rename, rm, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { debianRelease, unpackPackages } from "./apt.ts";

/** What must be there for a server to run. */
export interface Program {
  /** Name of the program, as on PATH. */
  readonly name: string;
  /** Debian packages that hold it. */
  readonly packages: readonly string[];
  /** Taken from the packages whatever is on PATH, because it needs more of them than the program. */
  readonly unpacked?: boolean;
  /** The packages are all that is needed: what else they depend on stays away. */
  readonly alone?: boolean;
  /**
   * The packages come from this suite of Debian, for a newer version than this system's. Unless they come
   * `alone`, all that they depend on is unpacked too, libc included, and the loader of that tree starts them.
   */
  readonly suite?: string;
  /** What differs for the newest version that Debian has. */
  readonly newest?: Partial<Program>;
  /** Folders inside an unpacked tree where it may lie; default usr/bin and usr/sbin. */
  readonly folders?: readonly string[];
  /** What to tell people on a system without such packages. */
  readonly advice: string;
}

export interface FoundProgram {
  readonly path: string;
  /** Arguments that come before those of the program: `path` is the loader then. */
  readonly args?: readonly string[];
  /** Root of the unpacked tree; null when it came from PATH. */
  readonly tree: string | null;
  /** What its environment needs in addition. */
  readonly env: Readonly<Record<string, string>>;
}

const STALE_MS = 3_600_000;

export function cacheFolder(): string {
  return join(homedir(), ".cache", "holdfast", "servers");
}

/** Whether the servers are to be of the newest version that Debian has. */
export const wantsNewest: boolean = process.env["HOLDFAST_TEST_NEWEST"] === "1";

export function newestOf(program: Program): Program {
  return { ...program, ...program.newest };
}

/** Finds the program, unpacking its packages when they are not there yet. */
export async function findProgram(wanted: Program, cache: string = cacheFolder()): Promise<FoundProgram> {
  const program = wantsNewest ? newestOf(wanted) : wanted;
  if (program.unpacked === true || program.suite !== undefined) return await unpackedProgram(program, cache);
  const onPath = await firstExecutable((process.env["PATH"] ?? "").split(delimiter), program.name);
  if (onPath !== null) return { path: onPath, tree: null, env: {} };
  return await unpackedProgram(program, cache);
}

/** The unpacked packages of the program, whatever is on PATH. */
export async function unpackedTree(program: Program, cache: string = cacheFolder()): Promise<string> {
  const release = await debianRelease();
  if (release === null) {
    throw new Error(
      `${program.name} is not on PATH, and packages can be unpacked on Debian and Ubuntu only: ${program.advice}`,
    );
  }
  const origin = program.suite === undefined ? release : `debian-${program.suite}-${process.arch}`;
  const tree = join(cache, origin, program.packages.join("+"));
  if (!(await exists(tree))) await unpackOnce(tree, program);
  return tree;
}

async function unpackedProgram(program: Program, cache: string): Promise<FoundProgram> {
  const tree = await unpackedTree(program, cache);
  const folders = (program.folders ?? ["usr/bin", "usr/sbin"]).map((folder) => join(tree, folder));
  const path = await firstExecutable(folders, program.name);
  if (path === null) {
    throw new Error(
      `${tree} does not hold ${program.name}: delete that folder to unpack it afresh, or ${program.advice}`,
    );
  }
  const libraries = (await libraryFolders(tree)).join(delimiter);
  if (program.suite === undefined || program.alone === true)
    return { path, tree, env: { LD_LIBRARY_PATH: libraries } };
  return { path: await loaderOf(tree), args: ["--library-path", libraries, path], tree, env: {} };
}

/** A libc goes with its own loader only. */
async function loaderOf(tree: string): Promise<string> {
  for (const folder of ["usr/lib64", "usr/lib"]) {
    const names = await readdir(join(tree, folder)).catch(() => []);
    const name = names.find((one) => one.startsWith("ld-linux"));
    if (name !== undefined) return join(tree, folder, name);
  }
  throw new Error(`${tree} has no loader`);
}

const unpacking = new Map<string, Promise<void>>();

/** Five servers that are started together by one process wait for one unpacking: five at once would take minutes. */
function unpackOnce(tree: string, program: Program): Promise<void> {
  const under = unpacking.get(tree) ?? unpackInto(tree, program).finally(() => unpacking.delete(tree));
  unpacking.set(tree, under);
  return under;
}

async function unpackInto(tree: string, program: Program): Promise<void> {
  const parent = dirname(tree);
  await mkdir(parent, { recursive: true });
  await sweep(parent);
  const work = await mkdtemp(join(parent, ".unpacking-"));
  try {
    const { alone, suite } = program;
    await unpackPackages(program.packages, join(work, "tree"), work, { alone, suite });
    await publish(join(work, "tree"), tree);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`${program.name} cannot be unpacked: ${program.advice}\n${reason}`, { cause: error });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Puts a finished folder in its place; when another process was quicker, its folder stays. */
export async function publish(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw error;
  }
}

/** Takes away what a killed process left half unpacked. */
async function sweep(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!name.startsWith(".unpacking-")) continue;
    const folder = join(parent, name);
    const age = await stat(folder).then(
      (found) => Date.now() - found.mtimeMs,
      () => 0,
    );
    if (age > STALE_MS) await rm(folder, { recursive: true, force: true });
  }
}

/** Debian keeps libraries in lib/<machine>, some packages in folders of their own below it. */
async function libraryFolders(tree: string): Promise<string[]> {
  const found: string[] = [];
  for (const top of ["usr/lib", "lib"]) {
    const entries = await readdir(join(tree, top), { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (entry.isDirectory() && entry.name.includes("-linux-")) found.push(join(tree, top, entry.name));
    }
    if (entries.length > 0) found.push(join(tree, top));
  }
  return found;
}

async function firstExecutable(folders: readonly string[], name: string): Promise<string | null> {
  for (const folder of folders) {
    if (folder === "") continue;
    const path = join(folder, name);
    const usable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (usable) return path;
  }
  return null;
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}
