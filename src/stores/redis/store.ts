// The contract on one Redis node. Every call is one script, which is one atomic step of the server under the server's clock;
// see scripts/. A store never waits and never tries again: what it does not know it throws.

import type {
  AttemptAnswer,
  Finding,
  Grant,
  Guarantees,
  Io,
  LockInfo,
  LossReason,
  Note,
  OpenStore,
  ReleaseOptions,
  RenewAnswer,
  RenewItem,
  Request,
  RevokeAnswer,
  RevokeOptions,
  StoreEnv,
} from "../../core/store.ts";
import { findings, noPush, readInfo, refuseUnsafe } from "./check.ts";
import { closedError, redisError } from "./errors.ts";
import { CLAIM_MS, redisGuarantees } from "./guarantees.ts";
import { Listener } from "./listener.ts";
import { globFree, Names } from "./names.ts";
import { listOf, type Patience, type RedisPort, type Reply, runScript, textOf } from "./port.ts";
import { scripts, type ScriptName } from "./scripts.generated.ts";
import { Turns } from "./turns.ts";
import { readAttempt, readLook } from "./words.ts";

/** So many leases are renewed in one step; more would keep the server from other work for too long. */
const RENEWED_AT_ONCE = 100;
const LISTED_AT_ONCE = 100;
/** Enough to tell a handful of processes from each other. */
const PROC_LENGTH = 16;
const REVOKED = "revoked:";

export class RedisOpenStore implements OpenStore<null> {
  readonly guarantees: Guarantees = redisGuarantees;
  readonly #port: RedisPort;
  readonly #names: Names;
  readonly #listener: Listener;
  readonly #turns = new Turns();
  /** What every script begins with. */
  readonly #head: readonly string[];
  #closed = false;

  private constructor(port: RedisPort, env: StoreEnv) {
    this.#port = port;
    this.#names = new Names(env.namespace);
    const proc = env.system.randomId().slice(0, PROC_LENGTH);
    this.#head = [this.#names.channels, proc, String(CLAIM_MS)];
    this.#listener = new Listener(port, this.#names.channels + proc);
  }

  static async open(connect: () => RedisPort | Promise<RedisPort>, env: StoreEnv): Promise<RedisOpenStore> {
    let port: RedisPort | null = null;
    try {
      port = await connect();
      const store = new RedisOpenStore(port, env);
      const listening = store.#listener.start();
      refuseUnsafe(await readInfo(port, { signal: new AbortController().signal }), env.allow);
      await listening;
      return store;
    } catch (error) {
      await port?.close();
      throw redisError(error, "be opened");
    }
  }

  async attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    const turn = this.#turns.number(request);
    if (turn === null) return { ended: true };
    const { id, seq, mode, permits, limit, ttlMs, graceMs, keepMs, label, actor, queue } = request;
    const numbers = [permits, limit, ttlMs, graceMs, keepMs].map(String);
    const open = this.#turns.oldestOpen(request).map(String);
    const args = [id, String(turn), String(seq), mode, ...numbers, label, actor, queue ? "1" : "0", ...open];
    const answer = readAttempt(await this.#run("attempt", request.keys, args, io), request);
    if ("conflict" in answer) this.#turns.close(request);
    else if ("ended" in answer || ("busy" in answer && !queue)) this.#turns.end(request);
    return answer;
  }

  async renew(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    const batches: Promise<RenewAnswer[]>[] = [];
    for (let at = 0; at < items.length; at += RENEWED_AT_ONCE) {
      batches.push(this.#renew(items.slice(at, at + RENEWED_AT_ONCE), io));
    }
    return (await Promise.all(batches)).flat();
  }

  async release(
    request: Request,
    _cookie: null,
    options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    const held = await this.#end(request, options.lastFences.map(String), io);
    return held ? "released" : "not-held";
  }

  async abandon(request: Request, io: Io): Promise<void> {
    await this.#end(
      request,
      request.keys.map(() => ""),
      io,
    );
  }

  subscribe(request: Request, wake: (grant?: Grant<null>) => void): Promise<() => void> {
    return this.#listener.wake(request.id, wake);
  }

  onLoss(tell: (id: string, reason: LossReason, detail?: string) => void): () => void {
    return this.#listener.onLoss(tell);
  }

  async owns(request: Request, _cookie: null, io: Io): Promise<boolean> {
    return Number(textOf(await this.#run("owns", request.keys, [request.id], io))) === 1;
  }

  async note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    await this.#run("note", request.keys, [request.id, note?.waitingFor ?? ""], io);
  }

  async inspect(key: string, io: Io): Promise<LockInfo | null> {
    const [reply] = listOf(await this.#run("look", [key], [], io));
    return readLook(reply, key);
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    const seen = new Set<string>();
    const prefix = this.#port.keyPrefix;
    const pattern = globFree(prefix) + this.#names.pattern(options.prefix);
    let [cursor, left] = ["0", options.limit];
    do {
      const words = ["SCAN", cursor, "MATCH", pattern, "COUNT", String(LISTED_AT_ONCE)];
      const [next, names] = listOf(await this.#send(words, "list the locks", io));
      cursor = textOf(next);
      const keys = listOf(names)
        .map((name) => this.#names.key(textOf(name).slice(prefix.length)))
        .filter((key) => key !== null && !seen.has(key)) as string[];
      for (const key of keys) seen.add(key);
      for (const info of await this.#look(keys, io)) {
        if (left <= 0) return;
        left -= 1;
        yield info;
      }
    } while (cursor !== "0" && left > 0);
  }

  async revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    const args = [
      options.reason,
      options.fence === undefined ? "" : String(options.fence),
      options.force ? "1" : "0",
    ];
    return textOf(await this.#run("revoke", [key], args, io)) as RevokeAnswer;
  }

  async check(io: Io): Promise<readonly Finding[]> {
    try {
      return [...(await findings(this.#port, io)), ...noPush(this.#listener.failure)];
    } catch (error) {
      throw redisError(error, "be checked");
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    const listening = this.#listener.close();
    await this.#port.close();
    await listening;
  }

  async #renew(items: readonly RenewItem<null>[], io: Io): Promise<RenewAnswer[]> {
    const keys = items.flatMap(({ request }) => request.keys);
    const args = items.flatMap(({ request, ttlMs, label, lastFences }) => {
      const { id, graceMs } = request;
      const used = request.keys.map((_key, at) => String(lastFences[at] ?? ""));
      return [id, String(request.keys.length), String(ttlMs), String(graceMs), label, ...used];
    });
    const words = listOf(await this.#run("renew", keys, args, io)).map(textOf);
    return items.map(({ ttlMs }, at): RenewAnswer => {
      const word = words[at] ?? "";
      if (word === "renewed") return { state: "renewed", validMs: ttlMs };
      if (!word.startsWith(REVOKED)) return { state: "lost", reason: "gone" };
      return { state: "lost", reason: "revoked", detail: word.slice(REVOKED.length) };
    });
  }

  async #end(request: Request, used: readonly string[], io: Io): Promise<boolean> {
    const turn = this.#turns.end(request);
    const open = this.#turns.oldestOpen(request).map(String);
    const fences = request.keys.map((_key, at) => used[at] ?? "");
    const args = [request.id, String(turn), ...fences, ...open];
    return Number(textOf(await this.#run("end", request.keys, args, io))) === 1;
  }

  async #look(keys: readonly string[], io: Io): Promise<LockInfo[]> {
    if (keys.length === 0) return [];
    const replies = listOf(await this.#run("look", keys, [], io));
    return keys.flatMap((key, at) => readLook(replies[at], key) ?? []);
  }

  async #run(
    name: ScriptName,
    keys: readonly string[],
    args: readonly string[],
    io: Patience,
  ): Promise<Reply> {
    const [key] = keys;
    if (this.#closed) throw closedError(key);
    try {
      const names = keys.map((one) => this.#names.record(one));
      return await runScript(this.#port, scripts[name], names, [...this.#head, ...args], io);
    } catch (error) {
      throw redisError(error, DOING[name], key);
    }
  }

  async #send(words: readonly string[], doing: string, io: Patience): Promise<Reply> {
    if (this.#closed) throw closedError();
    try {
      return await this.#port.send(words, io);
    } catch (error) {
      throw redisError(error, doing);
    }
  }
}

const DOING: Readonly<Record<ScriptName, string>> = {
  attempt: "try for the lock",
  end: "be told of the release",
  look: "be asked who holds the lock",
  note: "write the note",
  owns: "be asked for the owner",
  renew: "renew the lease",
  revoke: "revoke the lock",
};
