// Fetches Debian packages and unpacks them into a folder, without installing anything and without any privilege.
// Every list, archive and state file of apt lives in a private folder, so the system's own are never written.

import { execFile } from "node:child_process";
import { lstat, mkdir, readdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, isAbsolute, join, relative } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/**
 * A libc from the archive does not go with the loader of this system; the rest of a tree does. A tree of
 * another suite has them all.
 */
const NEVER_UNPACKED: ReadonlySet<string> = new Set(["libc6", "libc-bin", "libgcc-s1", "gcc-12-base"]);

const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

/** "debian-12-x64", or null where packages of Debian's kind are not to be had. */
export async function debianRelease(): Promise<string | null> {
  const text = await readFile("/etc/os-release", "utf8").catch(() => "");
  const field = (name: string): string => new RegExp(`^${name}="?([^"\\n]*)"?$`, "m").exec(text)?.[1] ?? "";
  const family = [field("ID"), ...field("ID_LIKE").split(" ")];
  if (!family.includes("debian") && !family.includes("ubuntu")) return null;
  return `${field("ID")}-${field("VERSION_ID") || "rolling"}-${process.arch}`;
}

export interface UnpackOptions {
  /** Leave out what the packages depend on. */
  readonly alone?: boolean | undefined;
  /**
   * A suite of Debian instead of the sources of this system, for newer versions. What this system has is of
   * no use then.
   */
  readonly suite?: string | undefined;
}

/**
 * Unpacks `names`, and what they depend on and this system lacks unless they are to come `alone`, into `tree`.
 * `work` is a folder of the caller's that may be deleted afterwards.
 */
export async function unpackPackages(
  names: readonly string[],
  tree: string,
  work: string,
  { alone = false, suite }: UnpackOptions = {},
): Promise<string[]> {
  const config = await privateConfig(work, { alone, suite });
  await command("apt-get", ["-c", config, "-q", "update"], work);
  const never = suite === undefined ? NEVER_UNPACKED : new Set<string>();
  const wanted = alone ? [...names] : await missingPackages(names, never, config, work);
  const archives = join(work, "archives");
  await mkdir(archives, { recursive: true });
  await command("apt-get", ["-c", config, "-q", "download", ...wanted], archives);
  await mkdir(tree, { recursive: true });
  for (const archive of (await readdir(archives)).sort()) {
    await command("dpkg", ["-x", join(archives, archive), tree], archives);
  }
  await keepLinksInside(tree);
  return wanted;
}

/** A link to /etc/x means the x of its own tree, which is not installed: the link is made to stay inside of the tree. */
async function keepLinksInside(tree: string): Promise<void> {
  for (const entry of await readdir(tree, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) continue;
    const link = join(entry.parentPath, entry.name);
    const target = await readlink(link);
    if (!isAbsolute(target)) continue;
    const inside = join(tree, target);
    const there = await lstat(inside).then(
      () => true,
      () => false,
    );
    if (!there) continue;
    await rm(link);
    await symlink(relative(dirname(link), inside), link);
  }
}

/** The hooks that a system runs after `update` are cleared: they work on the system's folders and need root. */
async function privateConfig(work: string, { alone, suite }: UnpackOptions): Promise<string> {
  await mkdir(join(work, "lists", "partial"), { recursive: true });
  await mkdir(join(work, "cache", "archives", "partial"), { recursive: true });
  await mkdir(join(work, "state"), { recursive: true });
  const config = join(work, "apt.conf");
  const noneInstalled = join(work, "status");
  await writeFile(noneInstalled, "");
  const status = suite === undefined || alone === true ? "/var/lib/dpkg/status" : noneInstalled;
  const lines = [
    `Dir::State "${join(work, "state")}";`,
    `Dir::State::Lists "${join(work, "lists")}";`,
    `Dir::State::status "${status}";`,
    `Dir::Cache "${join(work, "cache")}";`,
    `APT::Sandbox::User "";`,
    `Acquire::Retries "2";`,
    `Acquire::Languages "none";`,
    `#clear APT::Update::Pre-Invoke;`,
    `#clear APT::Update::Post-Invoke;`,
    `#clear APT::Update::Post-Invoke-Success;`,
  ];
  if (suite !== undefined) {
    const sources = join(work, "sources.list");
    await writeFile(sources, `deb [signed-by=${KEYRING}] ${await debianArchive(work)} ${suite} main\n`);
    lines.push(`Dir::Etc::sourcelist "${sources}";`, `Dir::Etc::sourceparts "-";`);
  }
  await writeFile(config, `${lines.join("\n")}\n`);
  return config;
}

/** The archive of Debian that the sources of this system name. */
async function debianArchive(work: string): Promise<string> {
  const output = await command("apt-get", ["indextargets", "--format", "$(REPO_URI)"], work);
  const archive = output.split("\n").find((uri) => /\/debian\/?$/.test(uri));
  if (archive === undefined) throw new Error("apt's sources of this system name no archive of Debian");
  return archive;
}

/** `name=version` of each package that an installation would add. The named ones are wanted even if installed. */
async function missingPackages(
  names: readonly string[],
  never: ReadonlySet<string>,
  config: string,
  work: string,
): Promise<string[]> {
  const options = ["-c", config, "-q", "--simulate", "--no-install-recommends", "--reinstall", "install"];
  const output = await command("apt-get", [...options, ...names], work);
  const found: string[] = [];
  for (const match of output.matchAll(/^Inst (\S+) (?:\[\S+\] )?\((\S+) /gm)) {
    const name = match[1] as string;
    if (!never.has(name.replace(/:.*/, ""))) found.push(`${name}=${match[2] as string}`);
  }
  if (found.length === 0)
    throw new Error(`apt-get names no package to unpack for ${names.join(", ")}:\n${output}`);
  return found;
}

async function command(file: string, args: readonly string[], cwd: string): Promise<string> {
  try {
    const env = { ...process.env, LC_ALL: "C", DEBIAN_FRONTEND: "noninteractive" };
    const { stdout } = await run(file, args, { cwd, env, maxBuffer: 64 * 1024 * 1024, timeout: 300_000 });
    return stdout;
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    const said = `${stdout}\n${stderr}`.trim().split("\n").slice(-15).join("\n");
    throw new Error(`\`${file} ${args.join(" ")}\` failed:\n${said || String(error)}`, { cause: error });
  }
}
