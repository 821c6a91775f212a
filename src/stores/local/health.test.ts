// What the local store finds about the place of its directory: the rules, on what kernels and containers
// really say.

import { describe, expect, it } from "vitest";
import { environmentFindings } from "./health.ts";
import type { Machine } from "./machine.ts";
import { mountOf, readMounts, remoteFileSystem } from "./file-systems.ts";

const HOST = "pid:[4026531836]";
const APART = "pid:[4026532641]";

/** A server with a disk, and shares of several kinds. */
const SHARES = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
26 22 0:24 / /dev/shm rw,nosuid,nodev shared:4 - tmpfs tmpfs rw,inode64
35 22 0:31 / /tmp rw,nosuid,nodev shared:17 - tmpfs tmpfs rw,size=8123456k,nr_inodes=1048576,inode64
90 22 0:45 / /mnt/auto rw,relatime shared:60 - autofs systemd-1 rw,fd=52,pgrp=1,timeout=0,minproto=5,maxproto=5,direct
523 22 0:52 / /mnt/nfs3 rw,relatime shared:270 - nfs nas:/volume1/data rw,vers=3,rsize=131072,wsize=131072,hard,proto=tcp,local_lock=none,addr=10.0.0.5
524 22 0:53 / /mnt/nfs4 rw,relatime shared:271 - nfs4 10.0.0.5:/export/locks rw,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp,clientaddr=10.0.0.9
612 22 0:61 / /mnt/team\\040share rw,relatime shared:330 - cifs //files/team\\040share rw,vers=3.1.1,cache=strict,username=svc,uid=0,noforceuid
701 22 0:72 / /home/ann/build rw,nosuid,nodev,relatime shared:402 - fuse.sshfs ann@build:/srv rw,user_id=1000,group_id=1000
702 22 0:73 / /mnt/bucket rw,nosuid,nodev,relatime - fuse.s3fs s3fs rw,user_id=0,group_id=0,allow_other
703 22 0:74 / /mnt/gluster rw,relatime - fuse.glusterfs g1:/gv0 rw,user_id=0,group_id=0,default_permissions,allow_other
704 22 0:75 / /mnt/vault rw,nosuid,nodev,relatime - fuse.gocryptfs /home/ann/.vault rw,user_id=1000,group_id=1000
705 22 259:3 / /mnt/usb rw,relatime - fuseblk /dev/sdb1 rw,user_id=0,group_id=0,allow_other,blksize=4096
706 22 0:77 / /mnt/ceph rw,relatime shared:410 - ceph 10.0.0.7:6789:/ rw,name=admin,secret=<hidden>,acl
707 22 0:78 / /vagrant rw,nodev,relatime - vboxsf vagrant rw,iocharset=utf8,uid=1000,gid=1000
708 22 0:79 / /Users rw,relatime - virtiofs mount0 rw
709 22 0:80 / /mnt/wsl rw,noatime - 9p C:\\134 rw,dirsync,aname=drvfs,access=client,trans=fd
`;

/** Docker with a volume and a bind mount, from inside. */
const DOCKER = `1204 1032 0:107 / / rw,relatime master:333 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AB:/var/lib/docker/overlay2/l/CD,upperdir=/var/lib/docker/overlay2/4f/diff,workdir=/var/lib/docker/overlay2/4f/work
1205 1204 0:110 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
1206 1204 0:111 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755,inode64
1210 1206 0:109 / /dev/shm rw,nosuid,nodev,noexec,relatime - tmpfs shm rw,size=65536k,inode64
1211 1204 8:1 /var/lib/docker/containers/2b/resolv.conf /etc/resolv.conf rw,relatime - ext4 /dev/sda1 rw
1212 1204 8:1 /var/lib/docker/volumes/locks/_data /var/lib/locks rw,relatime master:1 - ext4 /dev/sda1 rw
1213 1204 8:1 /srv/locks /locks rw,relatime master:1 - ext4 /dev/sda1 rw
`;

/** Podman without root. */
const PODMAN = `588 412 0:60 / / rw,nodev,noatime - fuse.fuse-overlayfs fuse-overlayfs rw,user_id=0,group_id=0,default_permissions,allow_other
590 588 0:62 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
`;

/** A unit with PrivateTmp=yes, on a machine whose /tmp is on the disk, and on one whose /tmp is a tmpfs. */
const UNIT = `389 22 8:1 / / rw,relatime shared:210 master:1 - ext4 /dev/sda1 rw
412 389 8:1 /tmp/systemd-private-2b0b5a1c9d7e4f0aa1-app.service-Xy12ab/tmp /tmp rw,relatime shared:211 master:1 - ext4 /dev/sda1 rw
413 389 8:1 /var/tmp/systemd-private-2b0b5a1c9d7e4f0aa1-app.service-Qw34cd/tmp /var/tmp rw,relatime shared:212 master:1 - ext4 /dev/sda1 rw
`;
const UNIT_TMPFS = `389 22 8:1 / / rw,relatime shared:210 master:1 - ext4 /dev/sda1 rw
400 389 0:31 / /tmp rw,nosuid,nodev shared:200 master:17 - tmpfs tmpfs rw
412 400 0:31 /systemd-private-2b0b5a1c9d7e4f0aa1-app.service-Xy12ab/tmp /tmp rw,nosuid,nodev shared:211 master:17 - tmpfs tmpfs rw
`;

const machine = (mounts: string, more: Partial<Machine> = {}): Machine => ({
  mounts,
  pidNamespace: HOST,
  isMarked: false,
  ...more,
});
const found = (path: string, at: Machine): string[] =>
  environmentFindings(path, at).map(({ id, level, what }) => `${id} ${level}: ${what}`);

describe("a directory on a network file system", () => {
  it.each([
    ["/mnt/nfs3", "nfs (nas:/volume1/data)"],
    ["/mnt/nfs4/deep/er", "nfs4 (10.0.0.5:/export/locks)"],
    ["/mnt/team share/locks", "cifs (//files/team share)"],
    ["/home/ann/build/x", "fuse.sshfs (ann@build:/srv)"],
    ["/mnt/bucket", "fuse.s3fs (s3fs)"],
    ["/mnt/gluster/locks", "fuse.glusterfs (g1:/gv0)"],
    ["/mnt/ceph", "ceph (10.0.0.7:6789:/)"],
    ["/vagrant", "vboxsf (vagrant)"],
    ["/Users/ann", "virtiofs (mount0)"],
    ["/mnt/wsl/x", "9p (C:\\)"],
  ])("is known: %s", (path, name) => expect(remoteFileSystem(path, SHARES)).toBe(name));

  it.each([
    "/",
    "/var/lib/locks",
    "/tmp/holdfast-0",
    "/dev/shm/x",
    "/mnt/vault",
    "/mnt/usb",
    "/mnt/nfs4-not",
  ])("is what %s is not", (path) => expect(remoteFileSystem(path, SHARES)).toBeNull());
});

describe("a process in a container", () => {
  it.each([
    ["Docker", DOCKER, "overlay"],
    ["Podman without root", PODMAN, "fuse.fuse-overlayfs"],
  ])("of %s meets nobody in the container's own files", (_name, mounts, type) => {
    expect(found("/tmp/holdfast-0", machine(mounts, { pidNamespace: APART }))).toEqual([
      `container info: this process runs in a container, and /tmp/holdfast-0 is part of that container (${type})`,
    ]);
  });

  it("is warned of a default directory", () => {
    const levels = (at: Machine): string[] =>
      environmentFindings("/run/holdfast", at, true).map(({ id, level }) => `${id} ${level}`);
    expect(levels(machine(DOCKER, { pidNamespace: APART, isRoot: true }))).toEqual([
      "container warning",
      "default-as-root warning",
    ]);
    expect(levels(machine(SHARES, { isRoot: true }))).toEqual(["default-as-root warning"]);
    expect(levels(machine(SHARES))).toEqual([]);
  });

  it("meets others in a volume or a directory of the host", () => {
    for (const path of ["/locks", "/var/lib/locks", "/dev/shm"])
      expect(found(path, machine(DOCKER, { pidNamespace: APART }))).toEqual([
        "container info: this process runs in a container",
      ]);
  });

  it("is known by its marks where it sees the host's processes, and an image that was booted is none", () => {
    expect(found("/locks", machine(DOCKER, { isMarked: true }))).toHaveLength(1);
    expect(found("/locks", machine(DOCKER))).toEqual([]);
    expect(found("/tmp", machine(SHARES, { isMarked: true }))).toEqual([]);
    expect(found("/tmp", machine("", { pidNamespace: "", isMarked: true }))).toEqual([]);
  });
});

describe("a service with a /tmp of its own", () => {
  it.each([
    [UNIT, "/tmp"],
    [UNIT, "/var/tmp"],
    [UNIT_TMPFS, "/tmp"],
  ])("is told that it meets nobody outside", (mounts, point) => {
    expect(found(`${point}/holdfast-0`, machine(mounts))).toEqual([
      `private-tmp info: this service has its own ${point} (PrivateTmp=)`,
    ]);
    expect(found("/var/lib/locks", machine(mounts))).toEqual([]);
  });
});

describe("the list of mounts of this machine", () => {
  it("says what its own parts are on", () => {
    expect(mountOf(readMounts(), "/proc/self")?.type).toBe("proc");
    expect(mountOf(readMounts(), "/")?.point).toBe("/");
    expect(remoteFileSystem("/proc")).toBeNull();
  });

  it("is not needed to tell a share from a disk", () => {
    expect(remoteFileSystem("/proc", "")).toBeNull();
  });
});
