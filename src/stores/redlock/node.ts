// One node: its name, its connection, and what is known of it. A node that cannot be reached when the store
// opens is tried again whenever it is asked. Nothing here waits or repeats by itself.
//
// A node that does not answer while the others do must not collect commands for ever (P20): each takes memory
// here and in its socket. Beyond a number of unanswered commands it is sent one now and then. What it misses
// is superseded: the majority has decided without it, and what it granted before ends with its ttl.

import { markUnsent } from "../../core/errors.ts";
import { ServerClock, type ServerReading } from "../../core/lease/server-clock.ts";
import type { System } from "../../core/system.ts";
import { type CallContext, type RedisPort, type Reply, runScript } from "../redis/client/port.ts";
import type { Voter } from "./quorum-call.ts";
import { scripts, type ScriptName } from "./scripts.generated.ts";

/** No smaller movement of a node's clock is taken for a jump, whatever the grace. */
const LEAST_JUMP_MS = 50;
/** Of a node that has had none. */
const NO_QUARANTINE = "r0";
/** Between two attempts to connect to a node that could not be reached. */
const RECONNECT_MS = 500;
/** A node with so many unanswered commands is silent if it has not answered anything for so long. */
const MOST_UNANSWERED = 20;
const SILENT_MS = 1_000;
/** A silent node is sent one command in this time. */
const PROBE_MS = 250;

const NOT_SENT = markUnsent(new Error("the command was not sent, because many earlier ones had no answer"));

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
  isSuspect = false;
  /** The run id under which its marker was last seen. */
  run = "";
  /** Every write is on its disk before it is acknowledged. */
  durable = false;
  /**
   * Its quarantine and for how long it has been watched, as `registerNode` last answered, and when that was.
   */
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
  #unanswered = 0;
  /** When the node last answered, or when the first of its unanswered commands was sent. */
  #heardMs = 0;
  #probedMs = Number.NEGATIVE_INFINITY;
  #silence: "none" | "suspected" | "confirmed" = "none";
  /** The last command to settle had no answer. */
  #hasFailed = false;

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

  send(command: readonly string[], call: CallContext): Promise<Reply> {
    const port = this.#port;
    if (port !== null) return this.#sendNow(port, command, call);
    const connected = this.connected().catch((error: unknown) => {
      throw markUnsent(error);
    });
    return connected.then((opened) => this.#sendNow(opened, command, call));
  }

  script(
    name: ScriptName,
    keys: readonly string[],
    args: readonly string[],
    call: CallContext,
  ): Promise<Reply> {
    return runScript(this, scripts[name], keys, args, call);
  }

  /** An answer carried the node's time and the words of its marker (scripts/marker.lua). */
  readClock(text: string, sentMs: number): void {
    const [seconds, us, , , quarantine = NO_QUARANTINE] = text.split(" ");
    const serverMs = Number(seconds) * 1_000 + Number(us) / 1_000;
    const reading = { serverMs, sentMs, receivedMs: this.#system.monoMs() };
    const movedMs = this.#clock.movedMs(reading, Math.max(LEAST_JUMP_MS, this.graceMs));
    // If the node has been in quarantine since, another client has seen the jump.
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

  #sendNow(port: RedisPort, command: readonly string[], call: CallContext): Promise<Reply> {
    const nowMs = this.#system.monoMs();
    if (this.#unanswered >= MOST_UNANSWERED && this.#isSilent(nowMs)) return Promise.reject(NOT_SENT);
    // After a failure the node has yet to show that it answers: a new connection proves nothing.
    if (this.#unanswered === 0 && !this.#hasFailed) this.#heardMs = nowMs;
    this.#unanswered += 1;
    const reply = port.send(command, call, command[3]);
    reply.then(this.#answered, this.#failed);
    return reply;
  }

  readonly #answered = (): void => {
    this.#unanswered -= 1;
    this.#heardMs = this.#system.monoMs();
    this.#silence = "none";
    this.#hasFailed = false;
  };

  readonly #failed = (error: unknown): void => {
    // An error of the server, such as "NOSCRIPT No matching script", is an answer.
    if (error instanceof Error && /^[A-Z]{2,} /.test(error.message)) return this.#answered();
    this.#unanswered -= 1;
    this.#hasFailed = true;
  };

  #isSilent(nowMs: number): boolean {
    if (nowMs - this.#heardMs < SILENT_MS) return false;
    // A blocked event loop runs its timers before it reads its sockets. The answers may be there, unread.
    if (this.#silence === "none") {
      this.#silence = "suspected";
      void this.#system.yield().then(() => {
        if (this.#silence === "suspected") this.#silence = "confirmed";
      });
    }
    if (this.#silence === "suspected") return false;
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
