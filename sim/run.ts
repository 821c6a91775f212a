// One run: a world made from its settings, a safety phase with faults, then healing and a liveness phase, then the checkers.

import { createHash } from "node:crypto";
import { callTimeoutMs } from "../src/core/util/store-call.ts";
import { defaultGraceMs } from "../src/core/lease/validity-window.ts";
import { check, type NamedViolation } from "./checkers/index.ts";
import type { History, HistoryEvent } from "./history.ts";
import { type Fault, type FaultKind, type SimSettings, type SimStoreName } from "./settings.ts";
import { type Backend, type BackendDeps, WORST_RATE } from "./world/backend.ts";
import { type ClientDeps, SimClient } from "./world/client.ts";
import { MemoryBackend } from "./world/memory-backend.ts";
import { Network } from "./world/network.ts";
import { SimProcess } from "./world/process.ts";
import { Random } from "./world/random.ts";
import { RedisBackend } from "./world/redis-backend.ts";
import { RedlockBackend } from "./world/redlock-backend.ts";
import { Resource } from "./world/resource.ts";
import { Timeline } from "./world/timeline.ts";

/** After these a store of several nodes may count some of them as having forgotten. */
const MAKES_DOUBTED: ReadonlySet<FaultKind> = new Set(["restart", "forget", "server-clock"]);

const BACKENDS: Readonly<Record<SimStoreName, new (deps: BackendDeps) => Backend>> = {
  memory: MemoryBackend,
  redis: RedisBackend,
  redlock: RedlockBackend,
};

export interface RunResult {
  readonly history: History;
  readonly violations: readonly NamedViolation[];
  /** Of the whole history: equal settings give equal hashes. */
  hash(): string;
  readonly events: number;
  readonly grants: number;
  readonly losses: number;
  /** How many messages a client sent between two moments. */
  messages(client: string, from: number, to: number): number;
}

export async function run(settings: SimSettings): Promise<RunResult> {
  const world = new World(settings);
  await world.play();
  const history = world.history();
  const violations = check(history);
  const hash = (): string =>
    createHash("sha256").update(JSON.stringify(history.events)).digest("hex").slice(0, 16);
  const count = (type: string): number => history.events.filter((event) => event.type === type).length;
  return {
    history,
    violations,
    hash,
    events: world.timeline.events,
    grants: count("granted"),
    losses: count("lost"),
    messages: (client, from, to) => world.messages(client, from, to),
  };
}

class World {
  readonly timeline = new Timeline();
  readonly #settings: SimSettings;
  readonly #events: HistoryEvent[] = [];
  readonly #random: Random;
  readonly #network: Network;
  readonly #backend: Backend;
  readonly #deps: ClientDeps;
  #clients: SimClient[] = [];
  /** Clients that were shut down. */
  readonly #leaving: SimClient[] = [];
  /** The names of those that were killed or shut down. */
  readonly #dead: string[] = [];
  #born = 0;

  constructor(settings: SimSettings) {
    this.#settings = settings;
    this.#random = new Random(settings.seed);
    const record = (event: HistoryEvent): void => {
      this.#events.push(event);
    };
    const { maxDelayMs, loss, duplication } = settings;
    this.#network = new Network(this.timeline, this.#random.fork("network"), {
      minDelayMs: 0.1,
      maxDelayMs,
      loss,
      duplication,
    });
    this.#backend = new BACKENDS[settings.store ?? "memory"]({
      timeline: this.timeline,
      network: this.#network,
      random: this.#random,
      settings,
      record,
    });
    const resource = new Resource(this.timeline, record);
    this.#deps = {
      timeline: this.timeline,
      network: this.#network,
      resource,
      record,
      settings,
      opens: this.#backend.opens,
      endMs: settings.lengthMs,
    };
  }

  async play(): Promise<void> {
    const { settings, timeline } = { settings: this.#settings, timeline: this.timeline };
    for (let i = 0; i < settings.clients; i += 1) this.#client("c").start(settings.tasks);
    for (const fault of settings.faults)
      timeline.at((fault.at / 1_000) * settings.lengthMs, () => this.#strike(fault));
    await timeline.run(settings.lengthMs);
    await this.#heal();
    await this.#settle();
  }

  messages(client: string, from: number, to: number): number {
    return (this.#network.sentAt.get(client) ?? []).filter((at) => at >= from && at < to).length;
  }

  history(): History {
    const { guarantees, rounds, weaknesses } = this.#backend;
    const doubted = this.#settings.faults.some(({ kind }) => MAKES_DOUBTED.has(kind));
    const quarantineMs = doubted ? this.#backend.quarantineMs : 0;
    return {
      events: this.#events,
      context: {
        forgetful: this.#settings.faults.some((fault) => weaknesses.includes(fault.kind)),
        // Only within its slice is a lease handed on; the slice counts from the arrival of the grant.
        handOffBlurMs:
          this.#settings.handoffMs === 0 ? 0 : this.#settings.handoffMs + this.#settings.maxDelayMs * 2 + 10,
        calm: this.#settings.faults.length === 0 && this.#settings.loss === 0,
        roundTripMs: 2 * rounds * this.#settings.maxDelayMs,
        fifo: guarantees.order === "fifo",
        oneByOne: !guarantees.kinds.includes("multi"),
        pollMs: guarantees.pollMs,
        claimMs: guarantees.claimMs,
        freeAfterCrashMs: (ttlMs) => ttlMs + defaultGraceMs(ttlMs) + quarantineMs,
        slackMs: 10,
        // The longest pause between two tries, with jitter, and two calls that were under way when the faults stopped.
        abandonMs: 5_000 * 1.25 + 2 * callTimeoutMs(this.#settings.ttlMs) + quarantineMs,
        callTimeoutMs,
      },
    };
  }

  #client(kind: string): SimClient {
    this.#born += 1;
    const random = this.#random.fork(`client ${this.#born}`);
    const clock = {
      rate: 1 + random.between(-WORST_RATE, WORST_RATE),
      wallOffsetMs: random.between(-5_000, 5_000),
    };
    const process = new SimProcess(`${kind}${this.#born}`, this.timeline, random.fork("process"), clock);
    const store = this.#backend.store(process);
    const client = new SimClient(process, store, random.fork("tasks"), this.#deps);
    this.#clients.push(client);
    return client;
  }

  #strike(fault: Fault): void {
    const client = this.#clients[fault.client % this.#clients.length] as SimClient;
    const { name } = client;
    const at = this.timeline.now;
    this.#events.push({ type: "fault", at, what: `${fault.kind} ${fault.ms} ms ${name}` });
    switch (fault.kind) {
      case "pause":
        return this.#stop(client, fault.ms);
      case "stall":
        return client.stall(fault.ms);
      case "crash":
        return this.#crash(client);
      case "shutdown":
        return this.#shutDown(client, fault.ms);
      case "cut":
        return this.#cut(fault, name, "both");
      case "cut-requests":
        return this.#cut(fault, name, "requests");
      case "cut-replies":
        return this.#cut(fault, name, "replies");
      case "freeze":
        return this.#backend.freeze(fault);
      case "restart":
        return this.#backend.restart(fault, false);
      case "forget":
        return this.#backend.restart(fault, true);
      case "server-clock":
        return this.#backend.jump(fault);
      case "client-wall":
        client.process.jumpWall(fault.client % 2 === 0 ? fault.ms : -fault.ms);
        return client.look();
      case "lose-pushes":
        this.#backend.pushes.lost = true;
        this.timeline.after(fault.ms, () => (this.#backend.pushes.lost = false));
        return;
      case "late-pushes":
        this.#backend.pushes.lateMs = fault.ms;
        this.timeline.after(fault.ms, () => (this.#backend.pushes.lateMs = 0));
        return;
    }
  }

  #cut(fault: Fault, client: string, which: "both" | "requests" | "replies"): void {
    for (const server of this.#backend.struck(fault)) {
      if (which !== "replies") this.#network.cut(client, server, fault.ms);
      if (which !== "requests") this.#network.cut(server, client, fault.ms);
    }
  }

  #stop(client: SimClient, ms: number): void {
    const mark = (type: "paused" | "resumed"): void => {
      this.#events.push({ type, at: this.timeline.now, client: client.name });
    };
    if (client.process.pause(ms, () => mark("resumed"))) mark("paused");
  }

  /** kill -9, and another process comes up in its place. */
  #crash(client: SimClient): void {
    if (client.process.state === "dead") return;
    client.process.kill();
    this.#events.push({ type: "crashed", at: this.timeline.now, client: client.name });
    this.#clients = this.#clients.filter((one) => one !== client);
    this.#dead.push(client.name);
    this.#client("c").start(this.#settings.tasks);
  }

  /** SIGTERM: the client closes its locks, and another process comes up in its place. */
  #shutDown(client: SimClient, drainMs: number): void {
    if (client.process.state === "dead") return;
    this.#clients = this.#clients.filter((one) => one !== client);
    this.#leaving.push(client);
    this.#dead.push(client.name);
    client.shutDown(drainMs);
    this.#client("c").start(this.#settings.tasks);
  }

  /** Faults stop. Whoever waits must get through, and every key must be had again by newcomers. */
  async #heal(): Promise<void> {
    this.#network.heal();
    this.#backend.thaw();
    this.#backend.pushes.lost = false;
    this.#backend.pushes.lateMs = 0;
    // Pauses and restarts that are still under way end by themselves.
    const longestMs = this.#settings.faults.reduce((ms, fault) => Math.max(ms, fault.ms), 0);
    await this.timeline.run(this.timeline.now + longestMs);
    this.#events.push({ type: "healed", at: this.timeline.now, what: "" });
    const probe = this.#client("probe");
    for (let i = 0; i < this.#settings.keys; i += 1) void probe.probe([`k${i}`], this.#settings.ttlMs);
    if (this.#settings.siblings === true) for (const name of this.#dead) void probe.sweep(name);
    // Two generations of the longest lease (an extension is of 2 s), the longest wait, and room for the line to empty.
    await this.timeline.run(this.timeline.now + 15_000 + 2 * this.#settings.ttlMs);
  }

  /** Everybody closes; when every lease must be over nothing may be left (P16). */
  async #settle(): Promise<void> {
    const at = (): number => this.timeline.now;
    const left = (what: string): void => {
      this.#events.push({ type: "left-over", at: at(), what });
    };
    for (const client of this.#clients) {
      if (!client.idle) left(`${client.name} still has tasks under way`);
      void client.locks
        .close()
        .then(() => this.#events.push({ type: "closed", at: at(), client: client.name }));
    }
    await this.timeline.run(at() + 10_000 + 2 * this.#settings.ttlMs);
    for (const client of [...this.#clients, ...this.#leaving]) {
      if (client.process.timers > 0) left(`${client.name} has ${client.process.timers} timers left`);
      for (const cause of client.process.warnings) left(`${client.name} warned: ${String(cause)}`);
    }
    await this.timeline.run(at() + 1_000);
    for (const what of this.#backend.leftovers()) left(what);
    this.#events.push({ type: "over", at: at(), what: "" });
  }
}
