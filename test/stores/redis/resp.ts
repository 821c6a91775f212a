// The smallest client that can ask a Redis: replies as plain values, errors thrown. Calls of concurrent tests
// run one after another.
// It shares nothing with the product, so that a fact about the server is never a fact about our own client.

import { connect, type Socket } from "node:net";
import { once } from "node:events";

export type Reply = string | number | null | Reply[];

export class Resp {
  readonly #socket: Socket;
  #buffer = "";
  /** The call before. Two readers of one socket would both take the same bytes. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(socket: Socket) {
    this.#socket = socket.setEncoding("latin1");
  }

  static async open(port: number): Promise<Resp> {
    const socket = connect({ host: "127.0.0.1", port });
    await once(socket, "connect");
    return new Resp(socket);
  }

  ask(...words: string[]): Promise<Reply> {
    const answer = this.#last.then(() => this.#askNow(words));
    this.#last = answer.catch(() => null);
    return answer;
  }

  async #askNow(words: readonly string[]): Promise<Reply> {
    const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
    this.#socket.write(`*${words.length}\r\n${parts.join("")}`);
    return await this.#value();
  }

  /** What the server sends without being asked, to whoever has subscribed. */
  next(): Promise<Reply> {
    return this.#value();
  }

  close(): void {
    this.#socket.destroy();
  }

  async #value(): Promise<Reply> {
    const line = await this.#take((await this.#until("\r\n")) + 2);
    const rest = line.slice(1, -2);
    if (line.startsWith("-")) throw new Error(rest);
    if (line.startsWith("+")) return rest;
    const count = Number(rest);
    if (line.startsWith(":")) return count;
    if (count === -1) return null;
    if (line.startsWith("$")) return (await this.#take(count + 2)).slice(0, -2);
    const items: Reply[] = [];
    while (items.length < count) items.push(await this.#value());
    return items;
  }

  async #until(mark: string): Promise<number> {
    while (!this.#buffer.includes(mark)) await this.#more();
    return this.#buffer.indexOf(mark);
  }

  async #take(length: number): Promise<string> {
    while (this.#buffer.length < length) await this.#more();
    const taken = this.#buffer.slice(0, length);
    this.#buffer = this.#buffer.slice(length);
    return taken;
  }

  async #more(): Promise<void> {
    const [chunk] = (await once(this.#socket, "data")) as [string];
    this.#buffer += chunk;
  }
}
