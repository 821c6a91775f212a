// What kind of file system a directory is on, where that matters for locks.

import { statfsSync } from "node:fs";

/** From statfs(2). FUSE and 9p are what a virtual machine or a desktop shares a host's directory by. */
const REMOTE: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB"],
  [0x517b, "SMB"],
  [0x65735546, "FUSE"],
  [0x01021997, "9p"],
  [0x00c36400, "Ceph"],
  [0x5346414f, "AFS"],
  [0x0bd00bd0, "Lustre"],
  [0x01161970, "GFS2"],
  [0x7461636f, "OCFS2"],
  [0x47504653, "GPFS"],
]);

/** The name of the file system if other machines may be on it too, else null. */
export function remoteFileSystem(path: string): string | null {
  return REMOTE.get(statfsSync(path).type) ?? null;
}
