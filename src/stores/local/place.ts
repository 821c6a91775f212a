// Where the files of this boot lie and whom they belong to.
//   <root>/<boot id>/<process>           one per opened store, locked for its life
//   <root>/<boot id>/<process>.sock      its mailbox
//   <root>/<boot id>/keys/<hash>         one per key
//   <root>/<boot id>/keys/floor          the largest fence of a key whose file was removed
// The folder appears complete or not at all. Every file has the sticky bit: systemd's cleaning of /tmp skips such files.

import {
  chmodSync,
  chownSync,
  closeSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import { errno, fileError } from "./errors.ts";
import { openRoot, type Root, userId } from "./root.ts";
import { createSlotFile } from "./slot-file.ts";

const BOOT_ID = "/proc/sys/kernel/random/boot_id";
/** A process id: also proof that a name from a record cannot lead out of the folder. */
const PROCESS_ID = /^[0-9a-f]{32}$/;
const STICKY = 0o1000;

export function isProcessId(text: string): boolean {
  return PROCESS_ID.test(text);
}

export class Place {
  readonly root: Root;
  readonly folder: string;
  readonly keys: string;
  readonly floor: string;
  /** Modes follow the directory: whoever may write there takes part. */
  readonly fileMode: number;
  readonly #folderMode: number;

  private constructor(root: Root, bootId: string) {
    const mode = root.stats.mode;
    const group = (mode & 0o030) === 0o030;
    const world = (mode & 0o003) === 0o003;
    this.root = root;
    this.folder = join(root.path, bootId);
    this.keys = join(this.folder, "keys");
    this.floor = join(this.keys, "floor");
    this.fileMode = STICKY | 0o600 | (group ? 0o060 : 0) | (world ? 0o006 : 0);
    this.#folderMode = (mode & 0o2000) | 0o700 | (group ? 0o070 : 0) | (world ? 0o007 : 0);
  }

  static open(dir: string | undefined, freshId: () => string, base?: string): Place {
    const place = new Place(openRoot(dir, base), readFileSync(BOOT_ID, "latin1").trim());
    try {
      if (statSync(place.floor, { throwIfNoEntry: false }) === undefined) place.#build(freshId());
      return place;
    } catch (error) {
      throw fileError(error, "make its files in", place.root.path);
    }
  }

  processPath(id: string): string {
    return join(this.folder, id);
  }

  socketPath(id: string): string {
    return join(this.folder, `${id}.sock`);
  }

  /** Gives a new file to everybody who takes part, whatever the umask and the creator's group. */
  adopt(fd: number): void {
    const stats = fstatSync(fd);
    const owner = this.#owner(stats);
    if (owner !== null) quietly(() => fchownSync(fd, owner.uid, owner.gid));
    if ((stats.mode & 0o7777) !== this.fileMode) fchmodSync(fd, this.fileMode);
  }

  adoptSocket(path: string): void {
    const owner = this.#owner(statSync(path));
    if (owner !== null) quietly(() => chownSync(path, owner.uid, owner.gid));
    chmodSync(path, this.fileMode & 0o777);
  }

  /** Root working in a user's directory must not leave files there that the user cannot open. */
  #owner(made: { uid: number; gid: number }): { uid: number; gid: number } | null {
    const { uid, gid } = this.root.stats;
    const wanted = { uid: userId() === 0 ? uid : made.uid, gid: this.root.named ? gid : made.gid };
    return wanted.uid === made.uid && wanted.gid === made.gid ? null : wanted;
  }

  #build(id: string): void {
    const draft = join(this.root.path, `.new-${id}`);
    try {
      for (const path of [draft, join(draft, "keys")]) {
        mkdirSync(path, 0o700);
        const owner = this.#owner(statSync(path));
        if (owner !== null) quietly(() => chownSync(path, owner.uid, owner.gid));
        chmodSync(path, this.#folderMode);
      }
      closeSync(createSlotFile(join(draft, "keys", "floor"), "0", this));
      renameSync(draft, this.folder);
    } catch (error) {
      rmSync(draft, { recursive: true, force: true });
      // Another process was first: its folder is as complete as ours.
      if (errno(error) !== "ENOTEMPTY" && errno(error) !== "EEXIST") throw error;
    }
  }
}

/** Belonging to the right group is a courtesy; where it is not permitted the mode decides. */
function quietly(change: () => void): void {
  try {
    change();
  } catch (error) {
    if (errno(error) !== "EPERM" && errno(error) !== "EACCES") throw error;
  }
}
