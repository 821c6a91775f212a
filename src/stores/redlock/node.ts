// One node: its name, its connection, and what is known of it. A node that cannot be reached when the store is opened is tried
// again whenever it is asked; nothing here waits or repeats on its own account.
//
// A node that does not answer while the others do must not collect calls for ever (P20): each would take
// memory here and in its socket. Beyond a number of unanswered calls it is sent one now and then. What it
// misses is superseded: the majority has decided without it, and what it granted before ends with its ttl.

import { markUnsent } from "../../core/errors.ts";
import { ServerClock, type ServerReading } from "../../core/server-clock.ts";
import type { System } from "../../core/system.ts";
import { type Patience, type RedisPort, type Reply, runScript } from "../redis/port.ts";
import type { Voter } from "./quorum.ts";
import { scripts, type ScriptName } from "./scripts.generated.ts";

/** No smaller movement of a node's clock is taken for a jump, whatever the grace. */
const LEAST_JUMP_MS = 50;
/** Between two attempts to connect to a node that refused. */
const RECONNECT_MS = 500;
/** A node with so many unanswered calls, of which one is so old, is silent. */
const MOST_UNANSWERED = 100;
const SILENT_MS = 2_000;
/** A silent node is sent one call in this time. */
const PROBE_MS = 250;

/** A reading of a node's clock that does not fit those before it. */
export interface ClockJump {
  readonly movedMs: number;
  readonly reading: ServerReading;
  readonly quarantine: string;
}

export type Connect = () => RedisPort | Promise<RedisPort>;

export class Node implements Voter {
  /** "node 3" and its address, for people. */
  readonly name: string;
  doubted = false;
  slow = false;
  /** The run id under which its marker was last seen. */
  run = "";
  /** Every write is on its disk before it is acknowledged. */
  durable = false;
  /** Its quarantine and for how long it has been watched, as `adopt` last answered, and when that was. */
  watch: { readonly seen: string; readonly readMs: number } | null = null;
  /** While this is set, no vote of the node counts. */
  jump: ClockJump | null = null;
  /** The smallest grace of any lease that was asked of it: a larger movement of its clock is a jump. */
  graceMs: number = Number.POSITIVE_INFINITY;
  /** Its last quarantine, as it reported with the last reading of its clock that fitted. */
  quarantine = "";
  #clock = new ServerClock();
  readonly #connect: Connect;
  readonly #system: System;
  #port: RedisPort | null = null;
  #connecting: Promise<RedisPort> | null = null;
  #failure: Error | null = null;
  #triedMs = Number.NEGATIVE_INFINITY;
  #closed = false;
  /** The oldest first. */
  readonly #unanswered = new Set<{ readonly sentAtMs: number }>();
  #probedMs = Number.NEGATIVE_INFINITY;

  constructor(name: string, connect: Connect, system: System) {
    this.name = name;
    this.#connect = connect;
    this.#system = system;
  }

  get port(): RedisPort | null {
    return this.#port;
  }

  /** Why there is no connection at the moment, where that is known. */
  get failure(): Error | null {
    return this.#port === null ? this.#failure : (this.#port.failure ?? null);
  }

  /** Resolves when it is connected. */
  connected(): Promise<RedisPort> {
    if (this.#port !== null) return Promise.resolve(this.#port);
    if (this.#connecting !== null) return this.#connecting;
    const nowMs = this.#system.monoMs();
    if (this.#failure !== null && nowMs - this.#triedMs < RECONNECT_MS) return Promise.reject(this.#failure);
    this.#triedMs = nowMs;
    this.#connecting = this.#open();
    return this.#connecting;
  }

  send(words: readonly string[], patience: Patience): Promise<Reply> {
    return this.#ask((port) => port.send(words, patience));
  }

  script(
    name: ScriptName,
    keys: readonly string[],
    args: readonly string[],
    patience: Patience,
  ): Promise<Reply> {
    return this.#ask((port) => runScript(port, scripts[name], keys, args, patience));
  }

  /** An answer carried the node's time and its last quarantine. */
  readClock(text: string, sentMs: number): void {
    const [us, quarantine = ""] = text.split(" ");
    const reading = { serverMs: Number(us) / 1_000, sentMs, receivedMs: this.#system.monoMs() };
    const movedMs = this.#clock.movedMs(reading, Math.max(LEAST_JUMP_MS, this.graceMs));
    // Where it has been in quarantine since, somebody else has seen the jump.
    if (movedMs !== 0 && quarantine === this.quarantine) this.jump ??= { movedMs, reading, quarantine };
    else this.#takeReading(reading, quarantine);
  }

  /** The jump has been dealt with: the clock counts as it is now. */
  acceptJump(): void {
    if (this.jump !== null) this.#takeReading(this.jump.reading, this.jump.quarantine);
    this.jump = null;
  }

  /** What is known of its clock is of no use any more. */
  forgetClock(): void {
    this.#clock = new ServerClock();
    this.jump = null;
  }

  #takeReading(reading: ServerReading, quarantine: string): void {
    this.#clock.take(reading);
    this.quarantine = quarantine;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#port?.close();
  }

  #ask(run: (port: RedisPort) => Promise<Reply>): Promise<Reply> {
    if (this.#port !== null) return this.#count(this.#port, run);
    const connected = this.connected().catch((error: unknown) => {
      throw markUnsent(error);
    });
    return connected.then((port) => this.#count(port, run));
  }

  /** Counts the call as unanswered until it settles. */
  #count(port: RedisPort, run: (port: RedisPort) => Promise<Reply>): Promise<Reply> {
    const nowMs = this.#system.monoMs();
    if (this.#isSilent(nowMs))
      return Promise.reject(
        markUnsent(new Error("this call was not sent, because many earlier ones had no answer")),
      );
    const asked = { sentAtMs: nowMs };
    this.#unanswered.add(asked);
    const settled = (): void => void this.#unanswered.delete(asked);
    const reply = run(port);
    reply.then(settled, settled);
    return reply;
  }

  #isSilent(nowMs: number): boolean {
    if (this.#unanswered.size < MOST_UNANSWERED) return false;
    const [oldest] = this.#unanswered;
    if (oldest === undefined || nowMs - oldest.sentAtMs < SILENT_MS) return false;
    if (nowMs - this.#probedMs < PROBE_MS) return true;
    this.#probedMs = nowMs;
    return false;
  }

  async #open(): Promise<RedisPort> {
    try {
      const port = await this.#connect();
      if (this.#closed) {
        await port.close();
        throw new Error("the redlock store is closed");
      }
      this.#port = port;
      this.#failure = null;
      return port;
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
      throw this.#failure;
    } finally {
      this.#connecting = null;
    }
  }
}
