// Free ports on the loopback address for servers of tests. They lie below the range from which Linux takes
// the ports of outgoing connections (net.ipv4.ip_local_port_range, 32768 and up), and a file with the
// number of our process reserves each until the process ends. So no connection and no other test takes the
// port of a server that is being restarted.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";

const LOWEST = 20_000;
const HIGHEST = 32_000;
const TRIES = 1_000;

const folder: string = join(tmpdir(), `holdfast-ports-${userInfo().uid}`);
const reserved = new Set<number>();

/** `count` different ports. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) ports.push(await freePort());
  return ports;
}

export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if (!reserve(port)) continue;
    if (await canListen(port)) return port;
    unreserve(port);
  }
  throw new Error(`no free port between ${LOWEST} and ${HIGHEST}: is ${folder} full of old files?`);
}

function reserve(port: number): boolean {
  if (reserved.size === 0) {
    mkdirSync(folder, { recursive: true });
    process.once("exit", () => {
      for (const one of reserved) unreserve(one);
    });
  }
  const file = join(folder, String(port));
  try {
    writeFileSync(file, String(process.pid), { flag: "wx" });
  } catch {
    // The file of a process that was killed is removed, and the port is one for the next try.
    if (!isAlive(Number(readOwner(file)))) rmSync(file, { force: true });
    return false;
  }
  reserved.add(port);
  return true;
}

function unreserve(port: number): void {
  reserved.delete(port);
  rmSync(join(folder, String(port)), { force: true });
}

function readOwner(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

function isAlive(pid: number): boolean {
  // A file that is empty is just being written.
  if (pid === 0) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
