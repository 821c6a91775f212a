// Detects file systems that other machines may share, and the layers of containers. It reads the kernel's
// list of mounts, which also names the types that statfs(2) reports only as FUSE.

import { readFileSync, statfsSync } from "node:fs";

export interface Mount {
  /** The directory of the file system that is mounted. */
  readonly root: string;
  readonly point: string;
  readonly type: string;
  readonly source: string;
}

/**
 * Other machines may mount the same file system. A virtual machine sees a directory of its host through 9p,
 * virtiofs and similar types.
 */
const REMOTE = new Set([
  ...["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "vboxsf", "prl_fs", "ceph", "afs", "coda"],
  ...["lustre", "gfs2", "ocfs2", "gpfs", "beegfs", "glusterfs", "orangefs", "pvfs2", "fuse"],
]);
/**
 * Only this machine uses these. Every other `fuse.*` counts as shared: most are, and the type does not
 * tell.
 */
const FUSE_OF_THIS_MACHINE = new Set([
  ...["fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.bindfs", "fuse.mergerfs", "fuse.gocryptfs", "fuse.encfs"],
  ...["fuse.ntfs-3g", "fuse.exfat"],
]);
/** The types of a container's root file system. */
const LAYERS = new Set(["overlay", "aufs", "fuse.fuse-overlayfs"]);

/** The types of statfs(2), for a directory whose mount is not in the list: the root of a chroot. */
const BY_NUMBER: ReadonlyMap<number, string> = new Map([
  [0x6969, "nfs"],
  [0xff534d42, "cifs"],
  [0xfe534d42, "smb3"],
  [0x65735546, "fuse"],
  [0x01021997, "9p"],
  [0x00c36400, "ceph"],
]);

/** The kernel's list of mounts, or "" if it cannot be read. */
export function readMounts(): string {
  try {
    return readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    return "";
  }
}

/**
 * The mount that contains `path`: the one with the longest mount point, and among equal ones the last. See
 * proc_pid_mountinfo(5).
 */
export function mountOf(mounts: string, path: string): Mount | null {
  let found: Mount | null = null;
  for (const line of mounts.split("\n")) {
    const [place = "", what = ""] = line.split(" - ");
    const [, , , root, point] = place.split(" ").map(plain);
    const [type, source] = what.split(" ").map(plain);
    if (root === undefined || point === undefined || type === undefined) continue;
    const over = point === "/" || path === point || path.startsWith(`${point}/`);
    if (!over || (found !== null && found.point.length > point.length)) continue;
    found = { root, point, type, source: source ?? "" };
  }
  return found;
}

/** The kernel writes a space as \040, and escapes some other characters in the same way. */
function plain(field: string): string {
  return field.replace(/\\([0-7]{3})/g, (_all, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}

function isRemote(type: string): boolean {
  return REMOTE.has(type) || (type.startsWith("fuse.") && !FUSE_OF_THIS_MACHINE.has(type));
}

/** Whether the mount is the root file system of a container. */
export function isLayer({ type, point }: Mount): boolean {
  return point === "/" && LAYERS.has(type);
}

/** The name of the file system if other machines may share it, else null. `path` has no symbolic links. */
export function remoteFileSystem(path: string, mounts: string = readMounts()): string | null {
  const mount = mountOf(mounts, path);
  if (mount === null) return BY_NUMBER.get(statfsSync(path).type) ?? null;
  if (!isRemote(mount.type)) return null;
  return mount.source === "" ? mount.type : `${mount.type} (${mount.source})`;
}
