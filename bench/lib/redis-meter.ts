// What a Redis has done between two moments, by its own account. What a script calls is not counted: of the
// libraries here some take a key by SET and some by a script, and all give it back by one.

import { Redis } from "ioredis";

export interface Reading {
  readonly scripts: number;
  readonly sets: number;
  readonly cpuUs: number;
  readonly bytesIn: number;
}

export class ServerMeter {
  readonly #client: Redis;

  private constructor(client: Redis) {
    this.#client = client;
  }

  static async open(url: string): Promise<ServerMeter> {
    const client = new Redis(url, { lazyConnect: true });
    await client.connect();
    return new ServerMeter(client);
  }

  async read(): Promise<Reading> {
    const text = await this.#client.info("everything");
    const value = (pattern: string): number =>
      Number(new RegExp(`^${pattern}([\\d.]+)`, "m").exec(text)?.[1] ?? 0);
    return {
      scripts: value("cmdstat_evalsha:calls=") + value("cmdstat_eval:calls="),
      sets: value("cmdstat_set:calls="),
      cpuUs: (value("used_cpu_user:") + value("used_cpu_sys:")) * 1e6,
      bytesIn: value("total_net_input_bytes:"),
    };
  }

  async since(before: Reading): Promise<Reading> {
    const now = await this.read();
    return {
      scripts: now.scripts - before.scripts,
      sets: now.sets - before.sets,
      cpuUs: now.cpuUs - before.cpuUs,
      bytesIn: now.bytesIn - before.bytesIn,
    };
  }

  /** Bytes of one key; 0 if there is none. */
  async memoryOf(key: string): Promise<number> {
    return Number((await this.#client.memory("USAGE", key)) ?? 0);
  }

  keys(): Promise<number> {
    return this.#client.dbsize();
  }

  close(): void {
    this.#client.disconnect();
  }
}
