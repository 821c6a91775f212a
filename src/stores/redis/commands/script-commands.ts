// Runs every command as one script, which is one atomic step under the server's clock. See scripts/.

import { isUnsent, type LockError, markUnsent, StoreUnavailableError } from "../../../core/errors.ts";
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
} from "../../../core/store.ts";
import { type Commands, type CommandsEnv, DOING, isPlain, lifeOf } from "./commands.ts";
import { redisError } from "../errors.ts";
import { FastPath } from "./fast-path.ts";
import { CLAIM_MS } from "../guarantees.ts";
import type { OpenRequest } from "./open-requests.ts";
import { type GetConnection, PerNode } from "../topology/dedicated-connection.ts";
import { listOf, type CallContext, type Reply, runScript, textOf } from "../client/port.ts";
import { type Acks, ReplicaAck, tooFew } from "./replica-ack.ts";
import { failureIn, labelText, readAttempt, readInspect, timeOf } from "./script-replies.ts";
import { scripts, type ScriptName } from "../scripts.generated.ts";
import { ServerClocks } from "./server-clocks.ts";

const REVOKED = "revoked:";
/** Where no replica has to acknowledge. */
const NO_ACKS: Acks = { count: 0, withinMs: 0 };
/** An attempt that comes too late teaches the server's time, so the second one arrives in time. */
const MOST_TRIES = 2;

export class ScriptCommands implements Commands {
  readonly #env: CommandsEnv;
  readonly clocks: ServerClocks;
  /** The first arguments of every script. */
  readonly #head: readonly string[];
  /** A Cluster keeps the highest fence in the record, because a script with keys of two slots is refused. */
  readonly #clockKey: readonly string[];
  /** Connections of their own: a renewal must not stand behind an acquire that waits for replicas. */
  readonly #attempts: PerNode<ReplicaAck> | null;
  readonly #renewals: PerNode<ReplicaAck> | null;
  /** null where replicas must acknowledge: such scripts have a dedicated connection. */
  readonly fastPath: FastPath | null;

  constructor(env: CommandsEnv) {
    this.#env = env;
    const { port, replicas } = env;
    const isCluster = port.slotOf !== undefined;
    const { names } = env;
    this.clocks = new ServerClocks(
      port.nodeOf === undefined ? null : (key) => port.nodeOf?.(names.record(key)) ?? "",
    );
    this.#head = [env.names.channels, env.proc, String(CLAIM_MS), isCluster ? "0" : "1"];
    this.#clockKey = isCluster ? [] : [env.names.clock];
    const acknowledged = (): PerNode<ReplicaAck> | null =>
      replicas === 0
        ? null
        : new PerNode(port, env.system, (one: GetConnection) => new ReplicaAck(one, replicas));
    this.#attempts = acknowledged();
    this.#renewals = acknowledged();
    this.fastPath = replicas === 0 ? new FastPath(env, this, isCluster) : null;
  }

  /** The nodes of a Cluster are asked when they are first needed. */
  async prepare(io: CallContext): Promise<void> {
    if (this.#env.port.slotOf === undefined) await this.notAfterMs("", 0, io);
  }

  attempt(request: Request, open: OpenRequest, io: Io): Promise<AttemptAnswer<null>> {
    const { fastPath } = this;
    if (fastPath === null || !isPlain(request)) return this.attemptAlone(request, open, io);
    return new Promise((resolve, reject) => {
      fastPath.attempt(request, open, io, (error, answer) => {
        if (answer === null) reject(error as Error);
        else resolve(answer);
      });
    });
  }

  /** Attempts by a script of its own. */
  async attemptAlone(
    request: Request,
    open: OpenRequest,
    io: CallContext & { readonly timeoutMs: number },
  ): Promise<AttemptAnswer<null>> {
    const { system } = this.#env;
    const deadlineMs = system.monoMs() + io.timeoutMs;
    for (let tries = 0; ; tries += 1) {
      const notAfterMs = await this.notAfterMs(request.keys[0] as string, deadlineMs, io);
      if (open.isEnded) return { ended: true };
      const sentMs = system.monoMs();
      open.sent(notAfterMs);
      let said: { readonly reply: Reply; readonly acks: Acks };
      try {
        said = await this.#run(
          this.#attempts,
          "acquire",
          this.#keysOf(request),
          this.#attemptArgs(request, notAfterMs),
          io,
          request.keys[0],
        );
      } catch (error) {
        if (isUnsent(error)) open.unanswered -= 1;
        throw error;
      }
      open.unanswered -= 1;
      this.clocks.learn(request.keys[0] as string, timeOf(said.reply), sentMs);
      const answer = readAttempt(said.reply, request);
      if (answer === null) {
        if (tries + 1 < MOST_TRIES && system.monoMs() < deadlineMs) continue;
        throw redisError(
          new Error("the attempt arrived after its time was over"),
          DOING.acquire,
          request.keys[0],
        );
      }
      const why = "granted" in answer ? tooFew(said.acks, this.#env.replicas) : null;
      return why === null ? answer : { unconfirmed: { why } };
    }
  }

  /** The server's time at `deadlineMs` of our clock. Asks a server whose time is unknown. */
  async notAfterMs(key: string, deadlineMs: number, io: CallContext): Promise<number> {
    const known = this.clocks.at(key, deadlineMs);
    if (known !== null) return known;
    const name = this.#env.names.record(key);
    const sentMs = this.#env.system.monoMs();
    try {
      const [seconds, micros] = listOf(await this.#env.port.send(["TIME"], io, name)).map(textOf);
      this.clocks.learn(key, Number(seconds) * 1_000 + Number(micros) / 1_000, sentMs);
    } catch (error) {
      // Nothing was sent of the attempt itself.
      throw redisError(markUnsent(error), DOING.acquire, key);
    }
    return this.clocks.at(key, deadlineMs) as number;
  }

  async renew(items: readonly RenewItem<null>[], io: Io): Promise<RenewAnswer[]> {
    const { names } = this.#env;
    const keys = items.flatMap(({ request }) => request.keys);
    const records = items.flatMap(({ request }) =>
      request.keys.flatMap((key) =>
        modeOf(request) === "x" ? [names.record(key)] : [names.record(key), names.ends(key)],
      ),
    );
    const args = items.flatMap(({ request, ttlMs, label, lastFences }) => {
      const holdMs = ttlMs + request.graceMs;
      const used = request.keys.map((_key, at) => String(lastFences[at] ?? ""));
      const count = String(request.keys.length);
      return [request.id, count, modeOf(request), usOf(holdMs), lifeOf(holdMs), labelText(label), ...used];
    });
    const { reply, acks } = await this.#run(this.#renewals, "renew", records, args, io, keys[0]);
    const why = tooFew(acks, this.#env.replicas);
    const [time, ...words] = listOf(reply).map(textOf);
    const clocks = [
      {
        node: this.#env.port.nodeOf?.(names.record(keys[0] as string)) ?? "redis",
        serverMs: Number(time) / 1_000,
      },
    ];
    return items.map(({ ttlMs, request }, at): RenewAnswer => {
      const word = words[at] ?? "";
      const cause = failureIn(word, "renew", request.keys[0]);
      if (cause !== null) return { state: "unknown", cause };
      if (word.startsWith(REVOKED))
        return { state: "lost", reason: "revoked", detail: word.slice(REVOKED.length), clocks };
      if (word !== "renewed") return { state: "lost", reason: "gone", clocks };
      return why === null ? { state: "renewed", validMs: ttlMs, clocks } : unknownRenewal(why);
    });
  }

  end(request: Request, used: readonly string[], lateUntilMs: number, io: Io): Promise<boolean> {
    const { fastPath } = this;
    const [last] = used;
    if (fastPath === null || lateUntilMs > 0 || last === undefined || last === "" || !isPlain(request))
      return this.endAlone(request, used, lateUntilMs, io);
    return new Promise((resolve, reject) => {
      fastPath.release(request, last, io, (error, held) => {
        if (held === null) reject(error as Error);
        else resolve(held);
      });
    });
  }

  /** Ends a request by a script of its own. */
  async endAlone(
    request: Request,
    used: readonly string[],
    lateUntilMs: number,
    io: CallContext,
  ): Promise<boolean> {
    const late = lateUntilMs === 0 ? "" : String(lateUntilMs);
    const args = [String(request.keys.length), request.id, late, ...used];
    const { reply } = await this.#run(null, "release", this.#keysOf(request), args, io, request.keys[0]);
    return Number(textOf(reply)) === 1;
  }

  async owns(request: Request, io: Io): Promise<boolean> {
    const args = [request.id, modeOf(request)];
    const { reply } = await this.#run(null, "owns", this.#records(request.keys), args, io, request.keys[0]);
    return Number(textOf(reply)) === 1;
  }

  async note(request: Request, note: Note, io: Io): Promise<void> {
    const args = [request.id, modeOf(request), note?.waitingFor ?? ""];
    await this.#run(null, "note", this.#records(request.keys), args, io, request.keys[0]);
  }

  async inspect(keys: readonly string[], io: Io): Promise<(LockInfo | LockError | null)[]> {
    const { reply } = await this.#run(null, "inspect", this.#records(keys), [], io, keys[0]);
    const replies = listOf(reply);
    const timeUs = Number(textOf(replies[keys.length]));
    return keys.map(
      (key, at) => failureIn(replies[at], "inspect", key) ?? readInspect(replies[at], key, timeUs),
    );
  }

  async revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    const { names } = this.#env;
    const fence = options.fence === undefined ? "" : String(options.fence);
    const args = [options.reason, fence, options.force ? "1" : "0"];
    const records = [names.record(key), names.ends(key), ...this.#clockKey];
    return textOf((await this.#run(null, "revoke", records, args, io, key)).reply) as RevokeAnswer;
  }

  #attemptArgs(request: Request, notAfterMs: number): string[] {
    const { keys, id, permits, limit, ttlMs, graceMs, keepMs, reservedFences, label, actor, queue } = request;
    const holdMs = ttlMs + graceMs;
    const mode = modeOf(request);
    return [
      String(keys.length),
      String(notAfterMs),
      id,
      mode,
      String(permits),
      String(limit),
      usOf(holdMs),
      usOf(ttlMs),
      // Beside others a number of its own could come after a larger one.
      mode === "x" ? String(reservedFences) : "0",
      usOf(keepMs),
      lifeOf(Math.max(holdMs, keepMs)),
      queue ? "1" : "0",
      `${labelText(label)} ${actor}`,
    ];
  }

  #keysOf({ keys }: Request): string[] {
    const { names } = this.#env;
    const records = keys.flatMap((key) => [names.record(key), names.ends(key)]);
    return [...records, ...this.#clockKey];
  }

  #records(keys: readonly string[]): string[] {
    return keys.map((key) => this.#env.names.record(key));
  }

  async #run(
    on: PerNode<ReplicaAck> | null,
    name: ScriptName,
    names: readonly string[],
    args: readonly string[],
    io: CallContext,
    key: string | undefined,
  ): Promise<{ readonly reply: Reply; readonly acks: Acks }> {
    const all = [...this.#head, ...args];
    try {
      if (on !== null)
        return await on.run(names[0] as string, (ack) => ack.run(scripts[name], names, all, io as Io));
      return { reply: await runScript(this.#env.port, scripts[name], names, all, io), acks: NO_ACKS };
    } catch (error) {
      throw redisError(error, DOING[name], key);
    }
  }
}

/** The kind of a request as scripts name it. */
function modeOf({ mode, limit }: Request): "x" | "s" | "p" {
  if (limit > 1) return "p";
  return mode === "exclusive" ? "x" : "s";
}

function usOf(ms: number): string {
  return String(Math.ceil(ms * 1_000));
}

/** The window does not move: a failover now could lose the renewal. */
export function unknownRenewal(why: string): RenewAnswer {
  return {
    state: "unknown",
    cause: new StoreUnavailableError(`the renewal does not count, because ${why}`),
  };
}
