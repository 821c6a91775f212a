// A client for `guardKey` without a dependency, over the HTTP gateway on the client port of every etcd member.
// A call goes to one member and is not repeated. After a failure the next call goes to the next member.

import { InvalidArgumentError, StoreUnavailableError } from "../core/errors.ts";
import type { EtcdClient, EtcdTxn, EtcdTxnAnswer } from "./etcd-key.ts";

/** Options of `etcdGateway`. */
export interface EtcdGatewayOptions {
  readonly user?: string;
  readonly password?: string;
  /**
   * The time limit of one call.
   *
   * @default 5000
   */
  readonly timeoutMs?: number;
}

interface GatewayAnswer {
  readonly succeeded?: boolean;
  readonly token?: string;
  readonly responses?: readonly {
    readonly response_range?: { readonly kvs?: readonly { value?: string }[] };
  }[];
  readonly error?: string;
  readonly message?: string;
}

const TIMEOUT_MS = 5_000;
const UNAUTHORIZED = 401;

/**
 * A client for `guardKey` over the HTTP gateway of etcd. `urls` are members of one cluster, separated by
 * commas.
 *
 * @example
 * const etcd = etcdGateway("http://h1:2379,http://h2:2379");
 * await guardKey(etcd, "order:42:state", lease);
 */
export function etcdGateway(urls: string, options: EtcdGatewayOptions = {}): EtcdClient {
  const members = typeof urls === "string" ? urls.split(",") : [];
  if (!members.every((url) => /^https?:\/\/[^/?#@]+\/?$/.test(url)) || members.length === 0)
    throw new InvalidArgumentError(
      "urls must be http://host:port or https://host:port, several of them separated by commas",
    );
  const gateway = new Gateway(
    members.map((url) => url.replace(/\/$/, "")),
    options,
  );
  return { kv: { txn: (txn) => gateway.txn(txn) } };
}

class Gateway {
  readonly #members: readonly string[];
  readonly #options: EtcdGatewayOptions;
  #at = 0;
  #token: string | null = null;

  constructor(members: readonly string[], options: EtcdGatewayOptions) {
    this.#members = members;
    this.#options = options;
  }

  async txn(txn: EtcdTxn): Promise<EtcdTxnAnswer> {
    const { user: name, password } = this.#options;
    if (name !== undefined && this.#token === null)
      this.#token = (await this.#ask("auth/authenticate", { name, password })).token ?? null;
    const { succeeded = false, responses = [] } = await this.#ask("kv/txn", plain(txn));
    return { succeeded, responses: responses.map(readable) };
  }

  async #ask(path: string, body: object): Promise<GatewayAnswer> {
    const member = this.#members[this.#at % this.#members.length] as string;
    try {
      const answer = await fetch(`${member}/v3/${path}`, {
        method: "POST",
        headers: this.#token === null ? {} : { authorization: this.#token },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(this.#options.timeoutMs ?? TIMEOUT_MS),
      });
      if (answer.status === UNAUTHORIZED) this.#token = null;
      const said = (await answer.json()) as GatewayAnswer;
      if (answer.ok) return said;
      throw new Error(said.error ?? said.message ?? `HTTP ${answer.status}`);
    } catch (error) {
      this.#at += 1;
      const detail = error instanceof Error ? error.message : String(error);
      throw new StoreUnavailableError(`the etcd member ${member} did not run the transaction: ${detail}`, {
        cause: error,
      });
    }
  }
}

/** The JSON mapping of protobuf: bytes in base64, enum values in upper case. */
function plain({ compare, success, failure }: EtcdTxn): object {
  return {
    compare: compare.map(({ key, target, result, value, create_revision }) => ({
      key: key.toString("base64"),
      target: target.toUpperCase(),
      result: result.toUpperCase(),
      ...(value === undefined ? { create_revision } : { value: value.toString("base64") }),
    })),
    success: success.map(({ request_put: { key, value } }) => ({
      request_put: { key: key.toString("base64"), value: value.toString("base64") },
    })),
    failure: failure.map(({ request_range: { key } }) => ({
      request_range: { key: key.toString("base64") },
    })),
  };
}

function readable({
  response_range,
}: NonNullable<GatewayAnswer["responses"]>[number]): EtcdTxnAnswer["responses"][number] {
  const kvs = response_range?.kvs ?? [];
  return { response_range: { kvs: kvs.map(({ value = "" }) => ({ value: Buffer.from(value, "base64") })) } };
}
