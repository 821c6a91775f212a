// The folder, the log, the socket and the connections of one opened store. Opening a session succeeds
// completely or leaves nothing behind. If its files are deleted while it is in use, the store opens a new
// session.

import { UnsupportedError } from "../../core/errors.ts";
import type { StoreEnv } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { requireAtomicAppend } from "./append-check.ts";
import { AtomicStep, lastFenceIfOver } from "./atomic-step.ts";
import { readBootId } from "./boot-id.ts";
import { cleanUp, processesInRecords } from "./cleanup.ts";
import { fileError, readOnlyError } from "./errors.ts";
import { Folder, processName } from "./folder.ts";
import { type LockDirectory, openDirectory } from "./lock-directory.ts";
import { Log, MissingLogError } from "./log.ts";
import { type Message, NotificationSocket } from "./notifications.ts";
import { PeerSockets } from "./peer-sockets.ts";
import { previousDefault, rejectPreviousVersion } from "./previous-version.ts";

/**
 * How often to replace a folder without a log. If that is not enough, another program keeps deleting the
 * files.
 */
const REPAIRS = 5;

export interface SessionListener {
  receive(message: Message): void;
  /** The process that this waiter watched is dead. */
  onDeath(waiter: string): void;
}

export class Session {
  /** The name of this opened store in records, and of its socket. */
  readonly name: string;
  readonly directory: LockDirectory;
  readonly folder: Folder;
  readonly log: Log;
  readonly peers: PeerSockets;
  readonly steps: AtomicStep;
  readonly #listener: SessionListener;
  #socket: NotificationSocket | null = null;
  #cleaning: Promise<void> = Promise.resolve();

  private constructor(folder: Folder, log: Log, name: string, env: StoreEnv, listener: SessionListener) {
    this.name = name;
    this.directory = folder.directory;
    this.folder = folder;
    this.log = log;
    this.#listener = listener;
    this.peers = new PeerSockets(folder, (waiter) => listener.onDeath(waiter));
    this.steps = new AtomicStep({
      system: env.system,
      log,
      self: name,
      path: folder.path,
      isAlive: (process) => this.peers.isAlive(process),
      notify: (wake) => {
        const { proc, id, revoked } = wake;
        const message: Message = revoked === undefined ? { wake: id } : { revoked: id, reason: revoked };
        if (proc === name) this.#listener.receive(message);
        else this.peers.send(proc, message);
      },
    });
  }

  /** Null if the directory is read-only and does not contain a folder yet. */
  static async open(
    dir: string | undefined,
    env: StoreEnv,
    listener: SessionListener,
  ): Promise<Session | null> {
    requireSharedClock(env.system);
    const directory = openDirectory(dir);
    const bootId = readBootId();
    rejectPreviousVersion(directory, dir === undefined ? previousDefault() : null, bootId);
    const name = processName(env.system.randomId());
    const opened = openLog(directory, bootId, name, env);
    if (opened === null) return null;
    const session = new Session(opened.folder, opened.log, name, env, listener);
    if (directory.isReadOnly) return session;
    try {
      await requireAtomicAppend(session.folder, name);
      session.#socket = await NotificationSocket.open(session.folder, name, (message) =>
        listener.receive(message),
      );
    } catch (error) {
      await session.close();
      throw error;
    }
    session.#cleaning = cleanUp(session, env.system).catch(() => {});
    return session;
  }

  get lifeline(): number | null {
    return this.#socket?.descriptor ?? null;
  }

  /** False after the folder, the log or the socket was deleted or moved. */
  isIntact(): boolean {
    return this.hasLog() && (this.#socket?.isLinked() ?? true);
  }

  /** False if other processes can no longer find the records of this session. */
  hasLog(): boolean {
    return this.folder.isLinked() && this.log.isLinked();
  }

  /** Throws if the directory is read-only. */
  requireWritable(key?: string): void {
    if (this.directory.isReadOnly) throw readOnlyError(this.directory.path, this.directory.stats.uid, key);
  }

  async close(): Promise<void> {
    this.steps.stop();
    await this.#cleaning;
    await this.peers.close();
    // If records still name this store, leave the closed socket: it shows other processes that the store is
    // gone. Without it, they would respect these records until their leases end.
    const socket = this.#socket;
    this.#socket = null;
    if (socket !== null) await socket.close(this.#isNamedInRecords());
    this.log.close();
    this.folder.close();
  }

  #isNamedInRecords(): boolean {
    try {
      this.log.refresh();
    } catch {
      return true;
    }
    return processesInRecords(this.log).has(this.name);
  }
}

/** Records contain times, so all processes must read the same clock. */
function requireSharedClock({ isMonotonicClockShared = true }: System): void {
  if (isMonotonicClockShared) return;
  throw new UnsupportedError(
    "the local store needs the monotonic clock that all processes of this machine share, and " +
      "this runtime has no access to it. In Deno, allow it: deno run --allow-ffi",
  );
}

function openLog(
  directory: LockDirectory,
  bootId: string,
  self: string,
  env: StoreEnv,
): { readonly folder: Folder; readonly log: Log } | null {
  const { namespace, system } = env;
  for (let left = REPAIRS; ; left -= 1) {
    const folder = Folder.open({
      directory,
      bootId,
      namespace,
      emptyLog: Log.emptyText(namespace),
      randomId: () => system.randomId(),
    });
    if (folder === null) return null;
    try {
      return { folder, log: new Log({ folder, self, isReadOnly: directory.isReadOnly, lastFenceIfOver }) };
    } catch (error) {
      const canRepair = error instanceof MissingLogError && left > 0 && !directory.isReadOnly;
      if (canRepair) folder.setAside(system.randomId());
      folder.close();
      if (!canRepair) throw fileError(error, "open", folder.path);
    }
  }
}
