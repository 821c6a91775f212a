// An etcd key that refuses stale holders. The fence stands beside the value under a name of its own, as a number of always the same
// length, because etcd compares values as bytes. One transaction compares it, raises it and writes; a key that was never
// touched has no fence to compare with, and is claimed by a second one that asks for just that.

import { StoreUnavailableError } from "../core/errors.ts";
import { showKey } from "../core/key.ts";
import { readFence } from "./fence.ts";
import type { KeyClaim } from "./key.ts";

/** As etcd's protocol names them. */
export interface EtcdTxn {
  readonly compare: readonly {
    readonly key: Buffer;
    readonly target: "Value" | "Create";
    readonly result: "Less" | "Equal";
    readonly value?: Buffer;
    readonly create_revision?: string;
  }[];
  readonly success: readonly { readonly request_put: { readonly key: Buffer; readonly value: Buffer } }[];
  readonly failure: readonly { readonly request_range: { readonly key: Buffer } }[];
}

export interface EtcdTxnAnswer {
  readonly succeeded: boolean;
  readonly responses: readonly {
    readonly response_range?: { readonly kvs: readonly { readonly value: Uint8Array }[] } | null;
  }[];
}

/** A client of etcd3, or what `etcdGateway` gives. Keys are whole: the prefix of a namespace is not put before them. */
export interface EtcdClient {
  readonly kv: { txn(txn: EtcdTxn): Promise<EtcdTxnAnswer> };
}

/** So many digits have the largest fences. */
const DIGITS = 19;
/** Two who touch a key first at the same moment look once more; more often only if the fence is deleted meanwhile. */
const LOOKS = 10;

export function isEtcd(client: unknown): client is EtcdClient {
  const kv = (client as Partial<EtcdClient> | null)?.kv as Partial<EtcdClient["kv"]> | undefined;
  return typeof kv === "object" && kv !== null && typeof kv.txn === "function";
}

export const etcdKey: KeyClaim = {
  what: (key) => `the etcd key ${showKey(key)}`,
  async claim(client, { key, fenceName, fence, value }) {
    const { kv } = client as EtcdClient;
    const [name, text] = [Buffer.from(fenceName), String(fence).padStart(DIGITS, "0")];
    const put = (at: Buffer, what: string | Uint8Array): EtcdTxn["success"][number] => ({
      request_put: { key: at, value: Buffer.from(what as string) },
    });
    const steps = {
      success: [put(name, text), ...(value === null ? [] : [put(Buffer.from(key), value)])],
      failure: [{ request_range: { key: name } }],
    };
    // Less than the fence and a zero byte: not larger than the fence.
    const notLarger = {
      key: name,
      target: "Value",
      result: "Less",
      value: Buffer.from(`${text}\0`),
    } as const;
    const untouched = { key: name, target: "Create", result: "Equal", create_revision: "0" } as const;
    for (let looks = 0; looks < LOOKS; looks += 1) {
      const answer = await kv.txn({ compare: [notLarger], ...steps });
      if (answer.succeeded) return null;
      const seen = fenceIn(answer, key);
      if (seen !== null) return seen;
      if ((await kv.txn({ compare: [untouched], ...steps })).succeeded) return null;
    }
    throw new StoreUnavailableError(`the fence of ${showKey(key)} came and went while it was looked at`, {
      key,
    });
  },
};

function fenceIn({ responses }: EtcdTxnAnswer, key: string): bigint | null {
  const kv = responses[0]?.response_range?.kvs[0];
  if (kv === undefined) return null;
  const text = Buffer.from(kv.value).toString();
  // Of another length it cannot be compared as bytes.
  return readFence(
    etcdKey.what(key),
    key,
    text.length === DIGITS ? text : `${text} of length ${text.length}`,
  );
}
