// How a key is known to the database: by the SHA-256 of namespace and key, because an index takes no key of
// 4,096 bytes and no collation may decide which keys are equal (P18). The key itself stands beside it, for
// people and for lists.

import { createHash } from "node:crypto";

export function hashOf(namespace: string, key: string): Uint8Array {
  // The length keeps "a" + "bc" apart from "ab" + "c".
  return createHash("sha256")
    .update(`${Buffer.byteLength(namespace)}:${namespace}`)
    .update(key)
    .digest();
}
