// A TCP proxy on the loopback address that can misbehave as networks do. Each direction either passes, is held back (as a
// cut cable: what was sent arrives after the healing) or is swallowed (it never does). It never reorders a byte, and changes none
// but the port numbers that it was told to: a connection that has had bytes swallowed is dropped at the healing, because nobody
// could make sense of the rest.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export type Direction = "requests" | "replies";

interface Policy {
  mode: "pass" | "hold" | "swallow";
  delayMs: number;
}

export interface ProxyTarget {
  readonly host: string;
  readonly port: number;
}

export class Proxy {
  readonly #server: Server;
  readonly #target: ProxyTarget;
  readonly #policies = { requests: passing(), replies: passing() };
  readonly #links = new Set<Link>();
  readonly #only: RegExp | undefined;
  readonly #names: Names = new Map();

  private constructor(target: ProxyTarget, only: RegExp | undefined) {
    this.#target = target;
    this.#only = only;
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#accept(client));
  }

  /** Misbehaves only on connections on which the client has sent something that `only` matches, when it is given. */
  static async listen(target: ProxyTarget, only?: RegExp): Promise<Proxy> {
    const proxy = new Proxy(target, only);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get connections(): number {
    return [...this.#links].filter(({ open }) => open).length;
  }

  /** Nothing gets through, in one direction or in both; new connections are accepted and stay silent. */
  cut(...directions: readonly Direction[]): void {
    this.#set("hold", directions);
  }

  /** What is sent from now on is lost for ever, while the sender believes it sent. */
  swallow(...directions: readonly Direction[]): void {
    this.#set("swallow", directions);
  }

  /** Connections that exist now are silent from now on, though both sides believe in them; new ones work. */
  halfOpen(): void {
    for (const link of this.#links) link.silence();
  }

  /** Everything takes so much longer, in each direction. */
  delay(ms: number): void {
    for (const policy of Object.values(this.#policies)) policy.delayMs = ms;
  }

  /** Servers that tell clients of these ports tell of those instead, on connections that are made from now on. They must be as long. */
  rename(ports: readonly number[], others: readonly number[]): void {
    for (const [at, port] of ports.entries()) {
      const [before, after] = [String(port), String(others[at])];
      if (before.length !== after.length) throw new Error(`${after} is not as long as ${before}`);
      this.#names.set(before, after);
    }
  }

  /** Resets every connection; new ones are welcome. */
  drop(): void {
    for (const link of [...this.#links]) link.reset();
  }

  heal(): void {
    for (const policy of Object.values(this.#policies)) Object.assign(policy, passing());
    for (const link of [...this.#links]) link.heal();
  }

  async close(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.drop();
    await closed;
  }

  #set(mode: Policy["mode"], directions: readonly Direction[]): void {
    const chosen = directions.length === 0 ? (["requests", "replies"] as const) : directions;
    for (const direction of chosen) this.#policies[direction].mode = mode;
    for (const link of this.#links) link.changed();
  }

  #accept(client: Socket): void {
    const upstream = connect({ ...this.#target, allowHalfOpen: true });
    const link = new Link(client, upstream, this.#policies, this.#only, this.#names);
    this.#links.add(link);
    // A client that left while it was cut off has something under way: until that has arrived the link is one.
    for (const socket of [client, upstream])
      socket.once("close", () => {
        if (client.closed && upstream.closed) this.#links.delete(link);
      });
  }
}

/** Numbers by what they become. */
type Names = Map<string, string>;

/** Only whole numbers: a longer one may contain any other. */
function renamed(chunk: Buffer, names: Names): Buffer {
  if (names.size === 0) return chunk;
  const text = chunk.toString("latin1").replaceAll(/\d+/g, (number) => names.get(number) ?? number);
  return Buffer.from(text, "latin1");
}

function passing(): Policy {
  return { mode: "pass", delayMs: 0 };
}

/** One connection of a client and the one made for it. When either breaks, so does the other. */
class Link {
  readonly #sockets: readonly Socket[];
  readonly #pipes: readonly Pipe[];

  constructor(
    client: Socket,
    upstream: Socket,
    policies: Readonly<Record<Direction, Policy>>,
    only: RegExp | undefined,
    names: Names,
  ) {
    const chosen = only === undefined ? policies : { requests: passing(), replies: passing() };
    this.#sockets = [client, upstream];
    this.#pipes = [
      new Pipe(client, upstream, chosen.requests),
      new Pipe(upstream, client, chosen.replies, names),
    ];
    if (only !== undefined) {
      client.on("data", (chunk: Buffer) => {
        if (!only.test(chunk.toString("latin1"))) return;
        // From here on it is one of those.
        this.#pipes[0]?.obey(policies.requests);
        this.#pipes[1]?.obey(policies.replies);
      });
    }
    for (const socket of this.#sockets) {
      socket.setNoDelay(true);
      socket.on("error", () => this.reset());
    }
  }

  /** The client is there. */
  get open(): boolean {
    return this.#sockets[0]?.closed === false;
  }

  changed(): void {
    for (const pipe of this.#pipes) pipe.changed();
  }

  silence(): void {
    for (const pipe of this.#pipes) pipe.silence();
  }

  heal(): void {
    if (this.#pipes.some((pipe) => pipe.swallowed)) this.reset();
    else this.changed();
  }

  reset(): void {
    for (const pipe of this.#pipes) pipe.stop();
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }
}

/** One direction of one connection: a queue of what is under way. */
class Pipe {
  swallowed = false;
  readonly #from: Socket;
  readonly #to: Socket;
  #policy: Policy;
  /** null is the sender's orderly end. */
  readonly #queue: { readonly chunk: Buffer | null; readonly dueMs: number }[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(from: Socket, to: Socket, policy: Policy, names: Names = new Map()) {
    this.#from = from;
    this.#to = to;
    this.#policy = policy;
    from.on("data", (chunk: Buffer) => this.#take(renamed(chunk, names)));
    from.on("end", () => this.#take(null));
    this.changed();
  }

  /** Held back, it stops reading, so that the sender's buffers fill as they would. */
  changed(): void {
    if (this.#policy.mode === "hold") this.#from.pause();
    else this.#from.resume();
    this.#flush();
  }

  obey(policy: Policy): void {
    this.#policy = policy;
    this.changed();
  }

  /** What is under way is lost, and so is all that follows. */
  silence(): void {
    this.stop();
    this.swallowed = true;
    this.obey({ mode: "swallow", delayMs: 0 });
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#queue.length = 0;
  }

  #take(chunk: Buffer | null): void {
    if (this.#policy.mode === "swallow") {
      this.swallowed = true;
      return;
    }
    this.#queue.push({ chunk, dueMs: performance.now() + this.#policy.delayMs });
    this.#flush();
  }

  #flush(): void {
    clearTimeout(this.#timer);
    if (this.#policy.mode === "hold") return;
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      const waitMs = next.dueMs - performance.now();
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.#flush(), waitMs);
        return;
      }
      this.#queue.shift();
      if (next.chunk === null) this.#to.end();
      else this.#to.write(next.chunk);
    }
  }
}
