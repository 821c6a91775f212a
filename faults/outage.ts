// `npm run faults -- --outage --store redis --seconds 60 --rate 1000`: a store that is frozen, and then one
// that is gone, while a process goes on asking for locks (P20). Measures what the outage costs that
// process, and how it recovers.
//
// 1. The servers are frozen (SIGSTOP), and the client calls tryAcquire so many times per second. Of a
//    redlock, one node is frozen.
// 2. The load ends while the outage lasts: memory after garbage collection, processor time of an idle
//    process.
// 3. The servers go on: time to the first grant of a key that was asked for meanwhile, writes in the first
//    second.
// 4. The same with servers that were killed, so that connections are refused.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { targetNamed } from "./targets/index.ts";
import type { FaultyServer, Target } from "./targets/target.ts";

export type AskClient =
  | { readonly do: "load"; readonly perSecond: number; readonly seconds: number }
  | { readonly do: "idle"; readonly seconds: number }
  | { readonly do: "recover" };

/** What the client answers; each question has a part of it. */
export interface ClientFigures {
  readonly sent: number;
  readonly granted: number;
  readonly failed: number;
  /** The most frequent errors, and how often each came. */
  readonly failures: readonly (readonly [what: string, times: number])[];
  readonly heapMb: number;
  readonly idleCpuPercent: number;
  readonly firstGrantMs: number;
  readonly writesInFirstSecond: number;
}

export interface OutageSettings {
  readonly store: string;
  readonly seconds: number;
  readonly perSecond: number;
}

export interface OutageFigures extends ClientFigures {
  readonly store: string;
  readonly phase: "frozen" | "refused";
  readonly seconds: number;
  readonly perSecond: number;
  /** What ran behind the store. */
  readonly server: string | null;
  /** How much more the client holds after the load than before the outage. */
  readonly heapGrowthMb: number;
}

export const OUTAGE_RESULTS: string = join(import.meta.dirname, "outage.jsonl");
const WARM_SECONDS = 2;
const IDLE_SECONDS = 4;
const SIGN_OF_LIFE_MS = 120_000;
/** What P20 allows, and what a recovery may take. */
export const MOST = { heapGrowthMb: 50, idleCpuPercent: 1, firstGrantMs: 2_000 } as const;

export async function outage({ store, seconds, perSecond }: OutageSettings): Promise<OutageFigures[]> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-outage-"));
  let [target, client]: [Target | null, Client | null] = [null, null];
  try {
    target = await targetNamed(store)(folder, "outage");
    client = await Client.start(target.url, store.startsWith("redlock") ? "2s" : "30s");
    const { servers } = target;
    const struck = store.startsWith("redlock") ? servers.slice(0, 1) : servers;
    await client.ask({ do: "load", perSecond, seconds: WARM_SECONDS });
    const figures: OutageFigures[] = [];
    for (const phase of ["frozen", "refused"] as const) {
      const before = await client.ask({ do: "idle", seconds: 1 });
      await Promise.all(struck.map((server) => begin(server, phase)));
      const load = await client.ask({ do: "load", perSecond, seconds });
      const idle = await client.ask({ do: "idle", seconds: IDLE_SECONDS });
      await Promise.all(struck.map((server) => end(server, phase)));
      await target.settled?.();
      const recovered = await client.ask({ do: "recover" });
      const heapGrowthMb = idle.heapMb - before.heapMb;
      const server = target.version ?? null;
      const run = { store, phase, seconds, perSecond, server };
      figures.push({ ...run, ...load, ...idle, ...recovered, heapGrowthMb });
    }
    return figures;
  } finally {
    client?.stop();
    await target?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** One line of text, and what is wrong with it. */
export function judged(figures: OutageFigures): { readonly line: string; readonly wrong: readonly string[] } {
  const { phase, sent, granted, failed, failures, heapMb, heapGrowthMb } = figures;
  const { idleCpuPercent, firstGrantMs, writesInFirstSecond } = figures;
  const why = failures.map(([what, times]) => `\n  ${times} x ${what}`).join("");
  const line = [
    `${phase}: ${sent} calls, ${granted} granted, ${failed} failed`,
    `heap ${heapMb.toFixed(1)} MB, ${heapGrowthMb.toFixed(1)} MB more`,
    `idle ${idleCpuPercent.toFixed(2)} % of a core`,
    `first grant after ${Math.round(firstGrantMs)} ms, ${writesInFirstSecond} writes in the first second`,
  ].join("; ");
  const names = Object.keys(MOST) as (keyof typeof MOST)[];
  const wrong = names
    .filter((name) => figures[name] > MOST[name])
    .map((name) => `${phase}: ${name} is ${figures[name].toFixed(1)}, and ${MOST[name]} is allowed`);
  return { line: line + why, wrong };
}

async function begin(server: FaultyServer, phase: OutageFigures["phase"]): Promise<void> {
  if (phase === "frozen") return server.freeze();
  if (server.down === undefined) throw new Error(`${server.name} cannot be kept down`);
  await server.down();
}

async function end(server: FaultyServer, phase: OutageFigures["phase"]): Promise<void> {
  if (phase === "frozen") server.thaw();
  else await server.up?.();
}

class Client {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(url: string, ttl: string): Promise<Client> {
    const file = join(import.meta.dirname, "outage-client.ts");
    const child = fork(file, [url, ttl], { execArgv: ["--expose-gc", "--import", "tsx"] });
    await once(child, "message", { signal: AbortSignal.timeout(SIGN_OF_LIFE_MS) });
    return new Client(child);
  }

  async ask(ask: AskClient): Promise<ClientFigures> {
    const answered = once(this.#child, "message");
    this.#child.send(ask);
    const ended = once(this.#child, "exit").then(([code]) => {
      throw new Error(`the client ended with ${code}`);
    });
    const [figures] = (await Promise.race([answered, ended])) as [
      ClientFigures & { readonly error?: string },
    ];
    if (figures.error !== undefined) throw new Error(figures.error);
    return figures;
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }
}
