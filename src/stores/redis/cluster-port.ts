// Redis Cluster behind the port: every command goes to the primary of its key's slot, over a connection of our own to each.
//
// 1. Who owns which slot is asked of the nodes (CLUSTER SLOTS), and again when one says MOVED, cannot be reached or is silent.
// 2. MOVED and ASK are followed within the call; where nothing was executed a call looks again while its caller is patient.
// 3. A command whose connection ended without an answer is not sent again: nobody knows what became of it.
//
// A subscription is held at one node: a Cluster carries what is published to all of its nodes.

import { UnsupportedError } from "../../core/errors.ts";
import { retryWhileUnsent } from "../shared/retry-while-unsent.ts";
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import { Ear } from "./ear.ts";
import { Lane, notExecuted, NotSentError, type Surroundings } from "./lane.ts";
import { type Address, addressOf, type Link, nameOf, sessionBy, type Switchboard } from "./link.ts";
import {
  listOf,
  type Patience,
  type RedisNode,
  type RedisPort,
  type Reply,
  type Session,
  textOf,
} from "./port.ts";
import { SharedRun } from "./shared-run.ts";
import { SLOTS, slotOf } from "./slots.ts";

/** So many nodes may pass a command on to another before it is given up. */
const MOST_HOPS = 5;
const QUIET = (): void => {};
const PATIENT: Patience = { signal: NEVER_ABORTED };

interface View {
  /** By slot, the name of its primary. */
  readonly owners: readonly (string | undefined)[];
  readonly primaries: ReadonlySet<string>;
  readonly replicas: ReadonlySet<string>;
}

export class ClusterPort implements RedisPort {
  readonly keyPrefix: string;
  readonly #board: Switchboard;
  readonly #seeds: readonly string[];
  readonly #around: Surroundings;
  readonly #lanes = new Map<string, Lane>();
  readonly #replicaLanes = new Map<string, Lane>();
  readonly #sessions = new Set<Link>();
  readonly #ears = new Map<Ear, { node: string }>();
  #owners: (string | undefined)[] = [];
  #view: View = { owners: [], primaries: new Set(), replicas: new Set() };
  readonly #looking: SharedRun<void>;
  #turn = 0;

  private constructor(board: Switchboard, seeds: readonly Address[], around: Surroundings) {
    this.#board = board;
    this.#seeds = seeds.map(nameOf);
    this.#around = around;
    this.#looking = new SharedRun(around.system);
    this.keyPrefix = board.keyPrefix;
  }

  static async connect(
    board: Switchboard,
    seeds: readonly Address[],
    around: Surroundings,
  ): Promise<ClusterPort> {
    const port = new ClusterPort(board, seeds, around);
    try {
      await port.#look({ signal: new AbortController().signal });
    } catch (error) {
      await port.close();
      throw error;
    }
    return port;
  }

  slotOf(key: string): number {
    return slotOf(this.keyPrefix + key);
  }

  async send(words: readonly string[], patience: Patience, key?: string): Promise<Reply> {
    for (const ear of this.#ears.keys()) ear.mend();
    const slot = key === undefined ? null : this.slotOf(key);
    return retryWhileUnsent(
      patience,
      () => this.#around.system.monoMs(),
      () => this.#sendOnce(words, patience, slot),
      { isUnsent: notExecuted, beforePause: () => this.#look(patience).catch(QUIET) },
    );
  }

  async nodes(patience: Patience): Promise<readonly RedisNode[]> {
    // Just after connecting the view is fresh, and there is no connection yet to ask again on.
    if (this.#lanes.size > 0) await this.#look(patience);
    const node = (name: string, primary: boolean): RedisNode => ({
      name,
      primary,
      send: (words, how) => this.#laneTo(name, primary).send(words, how),
    });
    const { primaries, replicas } = this.#view;
    return [
      ...[...primaries].map((name) => node(name, true)),
      ...[...replicas].map((name) => node(name, false)),
    ];
  }

  async subscribe(channel: string, hear: (message: string) => void): Promise<() => Promise<void>> {
    const at = { node: "" };
    const ear = new Ear(() => this.#dialAny(channel, at), channel, hear);
    await ear.listen();
    this.#ears.set(ear, at);
    return () => {
      this.#ears.delete(ear);
      ear.close();
      return Promise.resolve();
    };
  }

  nodeOf(name: string): string {
    return this.#owners[this.slotOf(name)] ?? "";
  }

  async session(node: string): Promise<Session> {
    const link = await this.#dialVetted(node).catch((error: unknown) => {
      // It is gone, or a replica by now: its slots have another owner.
      this.#look(PATIENT).catch(QUIET);
      throw error;
    });
    this.#sessions.add(link);
    link.onEnd(() => this.#sessions.delete(link));
    // A slot that has moved is asked for anew; the caller tries again.
    return sessionBy(link, (error) => {
      if (redirection(error, node) !== null) this.#look(PATIENT).catch(QUIET);
    });
  }

  close(): Promise<void> {
    for (const link of this.#sessions) link.end();
    for (const ear of this.#ears.keys()) ear.close();
    this.#ears.clear();
    for (const lane of [...this.#lanes.values(), ...this.#replicaLanes.values()]) lane.end();
    return Promise.resolve();
  }

  async #sendOnce(words: readonly string[], patience: Patience, slot: number | null): Promise<Reply> {
    let name = slot === null ? this.#anyPrimary() : this.#owners[slot];
    let asking = false;
    for (let hops = 0; hops < MOST_HOPS && name !== undefined; hops += 1) {
      const lane = this.#laneTo(name, true);
      if (lane.late) this.#look(patience).catch(QUIET);
      try {
        return await lane.send(words, patience, asking);
      } catch (error) {
        const to = redirection(error, name);
        if (to === null) throw error;
        [name, asking] = [to.name, to.asking];
        if (asking || slot === null) continue;
        this.#owners[slot] = name;
        this.#look(patience).catch(QUIET);
      }
    }
    throw new NotSentError(
      new Error(name === undefined ? `CLUSTERDOWN no node serves slot ${slot}` : "MOVED too often"),
    );
  }

  #anyPrimary(): string | undefined {
    const names = [...this.#view.primaries];
    this.#turn += 1;
    return names[this.#turn % names.length];
  }

  #laneTo(name: string, primary: boolean): Lane {
    const lanes = primary ? this.#lanes : this.#replicaLanes;
    let lane = lanes.get(name);
    if (lane === undefined) {
      const dial = (cancel: AbortSignal): Promise<Link> =>
        primary ? this.#dialVetted(name, cancel) : this.#board.node(addressOf(name), cancel);
      lane = new Lane(name, dial, this.#around.system, () => this.#renewSubscriptions(name));
      lanes.set(name, lane);
    }
    return lane;
  }

  /** The connection of the commands was half open: those of the subscriptions may be too. */
  #renewSubscriptions(node: string): void {
    for (const [ear, at] of this.#ears) if (at.node === node) ear.move();
  }

  async #dialVetted(name: string, cancel?: AbortSignal): Promise<Link> {
    const link = await this.#board.node(addressOf(name), cancel);
    try {
      await this.#around.vet(link);
      return link;
    } catch (error) {
      link.end();
      throw error;
    }
  }

  /** Spread over the nodes by the name of the channel; whichever can be had, in that order. */
  async #dialAny(channel: string, at: { node: string }): Promise<Link> {
    const names = [...this.#view.primaries, ...this.#view.replicas];
    const first = slotOf(channel) % names.length;
    let failure: unknown = new Error("no node of the Cluster is known");
    for (let i = 0; i < names.length; i += 1) {
      const name = names[(first + i) % names.length] as string;
      try {
        at.node = name;
        return await this.#board.node(addressOf(name));
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  /** Asks who owns what. One question at a time. */
  #look(patience: Patience): Promise<void> {
    return this.#looking.join(patience, (cancel) => this.#lookOnce(patience, cancel));
  }

  async #lookOnce(patience: Patience, cancel: AbortSignal): Promise<void> {
    const open = [...this.#lanes.values()].filter((lane) => lane.open && !lane.late);
    const asked = open.map(async (lane) =>
      viewOf(await lane.send(["CLUSTER", "SLOTS"], patience), lane.name),
    );
    try {
      this.#take(await Promise.any(asked));
    } catch {
      this.#take(await this.#askStrangers(cancel));
    }
  }

  /** Everybody else that was ever named, on connections that are closed again. */
  async #askStrangers(cancel: AbortSignal): Promise<View> {
    const over = new AbortController();
    const ask = async (name: string): Promise<View> => {
      const link = await this.#board.node(addressOf(name), AbortSignal.any([cancel, over.signal]));
      return viewOf(await link.send(["CLUSTER", "SLOTS"]), name);
    };
    const { primaries, replicas } = this.#view;
    try {
      return await Promise.any([...new Set([...primaries, ...replicas, ...this.#seeds])].map(ask));
    } catch (error) {
      throw noneOf(error);
    } finally {
      over.abort();
    }
  }

  #take(view: View): void {
    this.#view = view;
    this.#owners = [...view.owners];
    const known = (name: string): boolean => view.primaries.has(name) || view.replicas.has(name);
    for (const [name, lane] of this.#lanes) {
      if (view.primaries.has(name) || !(lane.idle || lane.late)) continue;
      lane.end();
      this.#lanes.delete(name);
    }
    for (const [ear, at] of this.#ears) if (!known(at.node)) ear.move();
  }
}

/** Where a node sends us to, or null. Without a host it means its own. */
function redirection(
  error: unknown,
  from: string,
): { readonly name: string; readonly asking: boolean } | null {
  const words = error instanceof Error ? /^(MOVED|ASK) \d+ (\S*):(\d+)/.exec(error.message) : null;
  if (words === null) return null;
  const [, kind, host = "", port] = words;
  return { name: nameOf({ host: host || addressOf(from).host, port: Number(port) }), asking: kind === "ASK" };
}

/** `asked`: the node that answered; one that does not know its own address leaves it out. */
function viewOf(reply: Reply, asked: string): View {
  const owners: (string | undefined)[] = Array.from({ length: SLOTS });
  const [primaries, replicas] = [new Set<string>(), new Set<string>()];
  for (const range of listOf(reply)) {
    const [first, last, ...nodes] = listOf(range);
    const [primary, ...others] = nodes.map((node) => {
      const [host, port] = listOf(node).map(textOf);
      const given = host === undefined || host === "" || host === "?" ? addressOf(asked).host : host;
      return nameOf({ host: given, port: Number(port) });
    });
    if (primary === undefined) continue;
    primaries.add(primary);
    for (const other of others) replicas.add(other);
    owners.fill(primary, Number(textOf(first)), Number(textOf(last)) + 1);
  }
  if (primaries.size === 0) throw new Error("CLUSTERDOWN no slot is served");
  return { owners, primaries, replicas };
}

/** The most telling of several failures. */
function noneOf(error: unknown): unknown {
  const errors: unknown[] = error instanceof AggregateError ? error.errors : [error];
  const single = errors.find((one) => one instanceof Error && /cluster support disabled/i.test(one.message));
  if (single === undefined) return errors[0] ?? new Error("no node of the Cluster is known");
  return new UnsupportedError("this Redis is not a Cluster: use redis://host:port, or a client of one node", {
    cause: single,
  });
}
