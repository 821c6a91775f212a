// Guards an etcd key. The fence is stored in a key of its own, padded to a fixed length, because etcd compares
// values as bytes. One transaction compares the fence, raises it and writes the value. A comparison fails for
// a key without a fence, so a second transaction claims a key that has none.

import { StoreUnavailableError } from "../core/errors.ts";
import { showKey } from "../core/key.ts";
import { readFence } from "./fence.ts";
import type { KeyClaim } from "./key.ts";

/** A transaction with the field names of etcd's protocol. */
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

/** The result of an `EtcdTxn`. */
export interface EtcdTxnAnswer {
  readonly succeeded: boolean;
  readonly responses: readonly {
    readonly response_range?: { readonly kvs: readonly { readonly value: Uint8Array }[] } | null;
  }[];
}

/** A client of etcd3, or the result of `etcdGateway`. `guardKey` adds no prefix to the keys. */
export interface EtcdClient {
  readonly kv: { txn(txn: EtcdTxn): Promise<EtcdTxnAnswer> };
}

/** The largest fence, 2^63 - 1, has 19 digits. */
const DIGITS = 19;
/** Two first claims at the same time need two tries. More are needed only if the fence is deleted in between. */
const MAX_TRIES = 10;

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
    // etcd has no "less or equal" for values. The fence with a zero byte appended is the next larger value.
    const notLarger = {
      key: name,
      target: "Value",
      result: "Less",
      value: Buffer.from(`${text}\0`),
    } as const;
    const untouched = { key: name, target: "Create", result: "Equal", create_revision: "0" } as const;
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const answer = await kv.txn({ compare: [notLarger], ...steps });
      if (answer.succeeded) return null;
      const seen = fenceIn(answer, key);
      if (seen !== null) return seen;
      if ((await kv.txn({ compare: [untouched], ...steps })).succeeded) return null;
    }
    throw new StoreUnavailableError(
      `the fence of ${showKey(key)} was deleted again and again during ${MAX_TRIES} tries: ` +
        "let no other program delete it, and try again",
      { key },
    );
  },
};

function fenceIn({ responses }: EtcdTxnAnswer, key: string): bigint | null {
  const kv = responses[0]?.response_range?.kvs[0];
  if (kv === undefined) return null;
  const text = Buffer.from(kv.value).toString();
  // A fence of another length cannot be compared as bytes, so it counts as damaged.
  return readFence(
    etcdKey.what(key),
    key,
    text.length === DIGITS ? text : `${text} of length ${text.length}`,
  );
}
