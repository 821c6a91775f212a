// Every step is one script, which is one atomic step of the server under the server's clock; see scripts/.

import { type LockError, StoreUnavailableError } from "../../core/errors.ts";
import type {
  AttemptAnswer,
  Io,
  LockInfo,
  Note,
  RenewAnswer,
  RenewItem,
  Request,
  RevokeAnswer,
  RevokeOptions,
} from "../../core/store.ts";
import { Acknowledged, type Acks, tooFew } from "./acknowledged.ts";
import { redisError } from "./errors.ts";
import { CLAIM_MS } from "./guarantees.ts";
import { PerNode } from "./own-connection.ts";
import { listOf, type Reply, runScript, textOf } from "./port.ts";
import { isSimple, Quick } from "./quick.ts";
import { scripts, type ScriptName } from "./scripts.generated.ts";
import { DOING, type Steps, type StepsEnv } from "./steps.ts";
import { loneGrant, readAttempt, readLook } from "./words.ts";

const REVOKED = "revoked:";
const FAILED = "failed:";
/** Nobody has to acknowledge anything. */
const NO_ACKS: Acks = { count: 0, withinMs: 0 };

export class ScriptSteps implements Steps {
  readonly #env: StepsEnv;
  /** What every script begins with. */
  readonly #head: readonly string[];
  /** Connections of their own: a renewal must not stand behind an acquire that waits for replicas. */
  readonly #attempts: PerNode<Acknowledged> | null;
  readonly #renewals: PerNode<Acknowledged> | null;
  /** Not where replicas must acknowledge: those have a connection of their own. */
  readonly #quick: Quick | null;
  /** Ids that were granted by it, or may be: an answer that comes after their end adds nothing. */
  readonly #lone = new Set<string>();

  constructor(env: StepsEnv) {
    this.#env = env;
    this.#head = [env.names.channels, env.proc, String(CLAIM_MS)];
    const { port, replicas } = env;
    const acknowledged = (): PerNode<Acknowledged> | null =>
      replicas === 0 ? null : new PerNode(port, (connection) => new Acknowledged(connection, replicas));
    this.#attempts = acknowledged();
    this.#renewals = acknowledged();
    this.#quick = replicas === 0 ? new Quick(port, env.proc) : null;
  }

  async attempt(
    request: Request,
    turn: number,
    open: () => readonly number[],
    io: Io,
  ): Promise<AttemptAnswer<null>> {
    if (request.seq === 1 && isSimple(request, turn)) {
      const fence = await this.#takeQuickly(request, turn, io);
      if (fence !== "") return { granted: loneGrant(fence, request) };
    }
    const { id, seq, mode, permits, limit, ttlMs, graceMs, keepMs, label, actor, queue, fenceRoom } = request;
    const numbers = [permits, limit, ttlMs, graceMs, keepMs].map(String);
    const rest = [label, actor, queue ? "1" : "0", String(fenceRoom), ...open().map(String)];
    const args = [id, String(turn), String(seq), mode, ...numbers, ...rest];
    if (this.#attempts === null)
      return readAttempt(await this.#run("attempt", request.keys, args, io), request);
    const { reply, acks } = await this.#acked(this.#attempts, "attempt", request.keys, args, io);
    const answer = readAttempt(reply, request);
    const why = "granted" in answer ? tooFew(acks, this.#env.replicas) : null;
    return why === null ? answer : { unconfirmed: { why } };
  }

  async renew(items: readonly RenewItem<null>[], io: Io): Promise<RenewAnswer[]> {
    const keys = items.flatMap(({ request }) => request.keys);
    const args = items.flatMap(({ request, ttlMs, label, lastFences }) => {
      const { id, graceMs } = request;
      const used = request.keys.map((_key, at) => String(lastFences[at] ?? ""));
      return [id, String(request.keys.length), String(ttlMs), String(graceMs), label, ...used];
    });
    const { reply, acks } =
      this.#renewals === null
        ? { reply: await this.#run("renew", keys, args, io), acks: NO_ACKS }
        : await this.#acked(this.#renewals, "renew", keys, args, io);
    const why = tooFew(acks, this.#env.replicas);
    const words = listOf(reply).map(textOf);
    const clocks = [{ node: this.#nodeOf(keys), serverMs: Number(words[items.length]) / 1_000 }];
    return items.map(({ ttlMs, request }, at): RenewAnswer => {
      const word = words[at] ?? "";
      const cause = failureIn(word, "renew", request.keys[0]);
      if (cause !== null) return { state: "unknown", cause };
      if (word.startsWith(REVOKED))
        return {
          state: "lost",
          reason: "revoked",
          detail: word.slice(REVOKED.length),
          clocks,
        };
      if (word !== "renewed") return { state: "lost", reason: "gone", clocks };
      return why === null ? { state: "renewed", validMs: ttlMs, clocks } : unknownRenewal(why);
    });
  }

  /** The server that these keys are on. */
  #nodeOf(keys: readonly string[]): string {
    return this.#env.port.nodeOf?.(this.#env.names.record(keys[0] as string)) ?? "redis";
  }

  async end(
    request: Request,
    turn: number,
    used: readonly string[],
    open: readonly number[],
    io: Io,
  ): Promise<boolean> {
    // Only what was taken so is likely to be that simple at its end.
    if (this.#lone.delete(request.id) && this.#quick !== null && used[0] !== "") {
      const told = this.#quick.release(
        this.#record(request),
        request,
        turn,
        used[0] as string,
        open[0] as number,
        io,
      );
      if ((await this.#named("end", request, told)) === "1") return true;
    }
    const args = [request.id, String(turn), ...used, ...open.map(String)];
    return Number(textOf(await this.#run("end", request.keys, args, io))) === 1;
  }

  forget(request: Request): void {
    this.#lone.delete(request.id);
  }

  async owns(request: Request, io: Io): Promise<boolean> {
    return Number(textOf(await this.#run("owns", request.keys, [request.id], io))) === 1;
  }

  async note(request: Request, note: Note, io: Io): Promise<void> {
    await this.#run("note", request.keys, [request.id, note?.waitingFor ?? ""], io);
  }

  async look(keys: readonly string[], io: Io): Promise<(LockInfo | LockError | null)[]> {
    const replies = listOf(await this.#run("look", keys, [], io));
    return keys.map((key, at) => failureIn(replies[at], "look", key) ?? readLook(replies[at], key));
  }

  async revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    const fence = options.fence === undefined ? "" : String(options.fence);
    const args = [options.reason, fence, options.force ? "1" : "0"];
    return textOf(await this.#run("revoke", [key], args, io)) as RevokeAnswer;
  }

  /** The fence, or "" where it is not that simple. */
  async #takeQuickly(request: Request, turn: number, io: Io): Promise<string> {
    if (this.#quick === null) return "";
    this.#lone.add(request.id);
    let fence = "";
    try {
      const taken = this.#quick.take(this.#record(request), request, turn, io);
      fence = await this.#named("attempt", request, taken);
    } finally {
      if (fence === "") this.#lone.delete(request.id);
    }
    return fence;
  }

  #record(request: Request): string {
    return this.#env.names.record(request.keys[0] as string);
  }

  async #named<T>(name: ScriptName, request: Request, asked: Promise<T>): Promise<T> {
    try {
      return await asked;
    } catch (error) {
      throw redisError(error, DOING[name], request.keys[0]);
    }
  }

  async #run(name: ScriptName, keys: readonly string[], args: readonly string[], io: Io): Promise<Reply> {
    try {
      return await runScript(
        this.#env.port,
        scripts[name],
        this.#records(keys),
        [...this.#head, ...args],
        io,
      );
    } catch (error) {
      throw redisError(error, DOING[name], keys[0]);
    }
  }

  async #acked(
    on: PerNode<Acknowledged>,
    name: ScriptName,
    keys: readonly string[],
    args: readonly string[],
    io: Io,
  ): Promise<{ readonly reply: Reply; readonly acks: Acks }> {
    const records = this.#records(keys);
    try {
      return await on.of(records[0] as string).run(scripts[name], records, [...this.#head, ...args], io);
    } catch (error) {
      throw redisError(error, DOING[name], keys[0]);
    }
  }

  #records(keys: readonly string[]): string[] {
    return keys.map((key) => this.#env.names.record(key));
  }
}

/** What a script says of one record of many. */
function failureIn(reply: Reply, name: ScriptName, key: string | undefined): LockError | null {
  if (Array.isArray(reply)) return null;
  const text = textOf(reply);
  return text.startsWith(FAILED) ? redisError(new Error(text.slice(FAILED.length)), DOING[name], key) : null;
}

/** The window is not moved: a failover now could forget it. */
export function unknownRenewal(why: string): RenewAnswer {
  return {
    state: "unknown",
    cause: new StoreUnavailableError(`the renewal does not count, because ${why}`),
  };
}
