// The processes of a run: the resource, the clients, and what can be done to a client. Whatever is done is written to the
// parent's journal first, with the time at which the signal was sent. Only processes that were started here are touched.

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../sim/world/random.ts";
import { compiled } from "./compiled.ts";
import { type Journal, nowMs } from "./journal.ts";
import { Program } from "./program.ts";
import type { ClientSetup, FromClient, ResourceSetup, RunSettings, ToClient } from "./settings.ts";
import type { Target } from "./targets/target.ts";
import { Watchdog } from "./watchdog.ts";

export interface Client {
  readonly name: string;
  readonly program: Program;
  readonly probe: boolean;
  /** As the client last said. */
  leases: number;
  state: "starting" | "running" | "stopped" | "killed" | "finishing";
}

/** Answers at which ports a client of that name reaches what listens at these. */
export type Hop = (name: string, ports: readonly number[]) => Promise<readonly number[]>;

/** On a busy machine loading a client alone can take many seconds. */
const READY_MS = 60_000;
const EXIT_MS = 20_000;
/** A strike looks for a client that holds something, most of the time. */
const HOLDERS_FIRST = 0.85;

export class Crew {
  /** More of the environment for a client of that name. */
  environment: (name: string) => NodeJS.ProcessEnv = () => ({});
  /** What stands between a client and the servers, the last one nearest to the client. Not for a probe. */
  readonly hops: Hop[] = [];
  readonly #settings: RunSettings;
  readonly #target: Target;
  readonly #folder: string;
  readonly #journal: Journal;
  readonly #watchdog = new Watchdog();
  readonly #clients = new Set<Client>();
  #resource: Program | null = null;
  #born = 0;

  constructor(settings: RunSettings, target: Target, folder: string, journal: Journal) {
    this.#settings = settings;
    this.#target = target;
    this.#folder = folder;
    this.#journal = journal;
  }

  /** Those that run and may be struck. */
  get running(): readonly Client[] {
    return [...this.#clients].filter((client) => client.state === "running" && !client.probe);
  }

  async start(): Promise<void> {
    const setup: ResourceSetup = {
      socket: this.#socket,
      folder: this.#folder,
      open: this.#settings.cheats.includes("open-guard"),
    };
    this.#resource = new Program(await compiled("resource"), setup, this.#watchdog, {});
    this.#resource.onExit((how) => this.#resourceExited(how));
    await this.#resource.ready(READY_MS);
    await Promise.all(Array.from({ length: this.#settings.clients }, () => this.add()));
  }

  /** One more client, which begins its tasks as soon as it is up. */
  async add(kind: "c" | "probe" = "c"): Promise<Client> {
    this.#born += 1;
    const { seed, tasks, cheats, graceMs } = this.#settings;
    const probe = kind === "probe";
    const name = `${kind}${this.#born}`;
    const cheat = probe ? null : (cheats[this.#born % cheats.length] ?? null);
    const { url, allow = [] } = this.#target;
    const reached = probe ? url : await this.#reach(name);
    const common = { name, url: reached, allow, seed, graceMs, folder: this.#folder, resource: this.#socket };
    const setup: ClientSetup = {
      ...common,
      tasks,
      cheat,
      probe,
    };
    const file = await compiled("client");
    const program = new Program(file, setup, this.#watchdog, this.environment(name));
    const client: Client = { name, program, probe, leases: 0, state: "starting" };
    this.#clients.add(client);
    program.onMessage((message) => {
      const said = message as FromClient;
      if (said.say === "holding") client.leases = said.leases;
    });
    program.onExit((how) => this.#exited(client, how));
    await program.ready(READY_MS);
    if (client.state === "starting") client.state = "running";
    this.#tell(client, { do: "start" });
    return client;
  }

  /** Somebody to strike; null when too few would be left running. */
  pick(random: Random, leaveRunning: number): Client | null {
    const { running } = this;
    if (running.length <= leaveRunning) return null;
    const holders = running.filter((client) => client.leases > 0);
    return random.pick(holders.length > 0 && random.chance(HOLDERS_FIRST) ? holders : running);
  }

  stop(client: Client): void {
    client.state = "stopped";
    this.#journal.write({ type: "paused", at: nowMs(), client: client.name });
    client.program.signal("SIGSTOP");
  }

  resume(client: Client): void {
    if (client.state !== "stopped") return;
    client.state = "running";
    this.#journal.write({ type: "resumed", at: nowMs(), client: client.name });
    client.program.signal("SIGCONT");
  }

  kill(client: Client): void {
    client.state = "killed";
    this.#journal.write({ type: "crashed", at: nowMs(), client: client.name });
    client.program.signal("SIGKILL");
  }

  /** SIGTERM. Resolves when its process has ended by itself, or could not (P16). */
  shutDown(client: Client): Promise<void> {
    client.state = "finishing";
    client.program.signal("SIGTERM");
    return this.#leaves(client);
  }

  block(client: Client, ms: number, busy: boolean): void {
    this.#tell(client, { do: "block", ms, busy });
  }

  /** Everybody closes, and every process ends by itself (P16). */
  async finish(): Promise<void> {
    while ([...this.#clients].some((client) => client.state === "starting")) await sleep(20);
    const all = [...this.#clients];
    for (const client of all) {
      if (client.state === "running") this.#tell(client, { do: "finish" });
      client.state = "finishing";
    }
    await Promise.all(all.map((client) => this.#leaves(client)));
  }

  /** Waits for a probe, which leaves when it has had every key. */
  async left(probe: Client, limitMs: number): Promise<void> {
    await probe.program.exits(limitMs);
  }

  /** Whatever happened: nothing stays. */
  async end(): Promise<void> {
    for (const client of this.#clients) client.state = "killed";
    await Promise.all([...this.#clients].map((client) => client.program.end()));
    await this.#resource?.end();
    this.#watchdog.close();
  }

  async #reach(name: string): Promise<string> {
    const { url, through, servers, told } = this.#target;
    if (through === undefined || this.hops.length === 0) return url;
    let ports: readonly number[] = told ?? servers.map(({ port }) => port);
    for (const hop of this.hops) ports = await hop(name, ports);
    return through(ports);
  }

  async #leaves(client: Client): Promise<void> {
    if (await client.program.exits(EXIT_MS)) return;
    const what = `${client.name} did not end by itself within ${EXIT_MS} ms of being asked to close`;
    this.#journal.write({ type: "left-over", at: nowMs(), what });
  }

  #exited(client: Client, how: string): void {
    this.#clients.delete(client);
    if (client.state === "killed" || how === "0") return;
    if (client.state === "finishing" && client.program.ended) return;
    this.#journal.write({
      type: "ended-by-itself",
      at: nowMs(),
      client: client.name,
      what: `ended with ${how}`,
    });
  }

  /** Without it a run is worth nothing, and must not look good. */
  #resourceExited(how: string): void {
    if (this.#resource?.ended === true) return;
    this.#journal.write({
      type: "ended-by-itself",
      at: nowMs(),
      client: "resource",
      what: `ended with ${how}`,
    });
  }

  #tell(client: Client, message: ToClient): void {
    client.program.send(message);
  }

  get #socket(): string {
    return join(this.#folder, "resource.sock");
  }
}
