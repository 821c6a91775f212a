// The smallest client that can ask an etcd: its own JSON gateway, by fetch. It shares nothing with the
// product, so that a fact about the server is never a fact about our own client.

export type Json = { readonly [name: string]: unknown };

export class Gateway {
  readonly #base: string;
  token: string | null = null;

  constructor(endpoint: string) {
    this.#base = `http://${endpoint}/v3/`;
  }

  /** For example `ask("kv/put", { key: b64("a"), value: b64("1") })`. Throws what the server says. */
  async ask<T = Json>(path: string, body: Json = {}): Promise<T> {
    const response = await fetch(this.#base + path, {
      method: "POST",
      body: JSON.stringify(body),
      ...(this.token === null ? {} : { headers: { Authorization: this.token } }),
    });
    const answer = (await response.json()) as { error?: string; message?: string };
    if (!response.ok) throw new Error(answer.error ?? answer.message);
    return answer as T;
  }

  async keys(prefix: string): Promise<string[]> {
    const end = prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
    const { kvs = [] } = await this.ask<{ kvs?: { key: string }[] }>("kv/range", {
      key: b64(prefix),
      range_end: b64(end),
      keys_only: true,
    });
    return kvs.map(({ key }) => Buffer.from(key, "base64").toString());
  }

  async leases(): Promise<string[]> {
    const { leases = [] } = await this.ask<{ leases?: { ID: string }[] }>("lease/leases");
    return leases.map(({ ID }) => ID);
  }

  async revision(): Promise<number> {
    const { header } = await this.ask<{ header: { revision: string } }>("kv/range", { key: b64("none") });
    return Number(header.revision);
  }

  async put(key: string, value: string, lease?: string): Promise<void> {
    await this.ask("kv/put", { key: b64(key), value: b64(value), ...(lease === undefined ? {} : { lease }) });
  }

  async delete(key: string): Promise<void> {
    await this.ask("kv/deleterange", { key: b64(key) });
  }

  async compact(): Promise<void> {
    await this.ask("kv/compaction", { revision: await this.revision() });
  }
}

export function b64(text: string): string {
  return Buffer.from(text).toString("base64");
}
