// The slice of a Redis client that the store needs, as an interface of our own. Adapters implement it for node-redis and for
// ioredis, and a simulated server can stand behind it too. It never retries, except that a script which the server does
// not know is sent once more with its text.

export interface Script {
  readonly name: string;
  /** By which the server knows the text. */
  readonly sha: string;
  readonly text: string;
}

/** Whatever aborts when the caller has stopped listening; looked at only where a command would have to wait. */
export interface Patience {
  readonly signal: AbortSignal;
}

export type Reply = string | number | null | undefined | boolean | Uint8Array | readonly Reply[];

export interface RedisPort {
  /** What the client itself puts before every key that it knows as one. */
  readonly keyPrefix: string;
  /** One command. Rejects with the client's own error; while there is no connection it waits as long as `patience` does. */
  send(words: readonly string[], patience: Patience): Promise<Reply>;
  /** Listens on a connection of its own, over every reconnection. Gives the way to stop it. */
  subscribe(channel: string, hear: (message: string) => void): Promise<() => Promise<void>>;
  /** Ends what was opened here, never what was given. */
  close(): Promise<void>;
}

export async function runScript(
  port: RedisPort,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
  patience: Patience,
): Promise<Reply> {
  const rest = [String(keys.length), ...keys, ...args];
  try {
    return await port.send(["EVALSHA", script.sha, ...rest], patience);
  } catch (error) {
    // Nothing has run: the server was restarted, or somebody flushed its scripts.
    if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
    return port.send(["EVAL", script.text, ...rest], patience);
  }
}

/** A reply as text: clients may be set to give bytes or numbers. */
export function textOf(reply: Reply): string {
  if (typeof reply === "string") return reply;
  if (reply instanceof Uint8Array) return Buffer.from(reply).toString();
  return reply === null || reply === undefined || typeof reply === "object" ? "" : String(reply);
}

export function listOf(reply: Reply): readonly Reply[] {
  return Array.isArray(reply) ? (reply as readonly Reply[]) : [];
}
