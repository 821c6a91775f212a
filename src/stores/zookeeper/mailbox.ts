// One node per session that changes when an operator has revoked something of it. One watch on it tells the holder at once,
// instead of one watch per lock, which every acquire would have to pay for. Missed news are found by the next renewal.

import type { Desk } from "./desk.ts";
import { orElse } from "./desk.ts";
import { sessionName } from "./names.ts";
import type { Link } from "./port.ts";
import { Code, isCode } from "./wire/errors.ts";
import { create, Flags, getData, setData } from "./wire/ops.ts";

export interface News {
  /** Whose node. */
  readonly path: string;
  readonly reason: string;
}

const TRIES = 5;

export class Mailbox {
  readonly #desk: Desk;
  /** The session that has one. */
  #session = 0n;

  constructor(desk: Desk) {
    this.#desk = desk;
  }

  /** Makes it, once per session. */
  async open(link: Link): Promise<void> {
    if (this.#session === link.sessionId) return;
    const path = this.#desk.paths.mailbox(sessionName(link.sessionId));
    const wish = { path, data: Buffer.from("{}"), acl: this.#desk.acl, flags: Flags.ephemeral };
    for (let tries = 1; ; tries += 1) {
      try {
        await link.send(create(wish));
        break;
      } catch (error) {
        if (isCode(error, Code.nodeExists)) break;
        if (!isCode(error, Code.noNode) || tries === TRIES) throw error;
        await this.#desk.ensure(link, this.#desk.paths.mail);
      }
    }
    await this.read(link);
    this.#session = link.sessionId;
  }

  isMine(path: string, session: bigint): boolean {
    return path === this.#desk.paths.mailbox(sessionName(session));
  }

  /** What was written last; watches for the next. */
  async read(link: Link): Promise<News | null> {
    const path = this.#desk.paths.mailbox(sessionName(link.sessionId));
    this.#desk.port.watch("data", path);
    const content = await orElse(link.send(getData(path, true)), null);
    const news = content === null ? {} : (JSON.parse(content.data.toString()) as Partial<News>);
    const { path: about, reason } = news;
    return about === undefined || reason === undefined ? null : { path: about, reason };
  }

  /** A session that is gone, or has no mailbox yet, need not be told. */
  async poke(link: Link, session: string, news: News): Promise<void> {
    const data = Buffer.from(JSON.stringify(news));
    await orElse(link.send(setData(this.#desk.paths.mailbox(session), data)), null);
  }
}
