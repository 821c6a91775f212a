// Mistakes that no history of a lock shows, such as memory that grows. Each must make a unit test fail, or a
// test with a real server.

import type { Mutant } from "./list.ts";

export interface UnitMutant extends Pick<Mutant, "name" | "file" | "edits"> {
  /** The test files, one of which must fail. */
  readonly tests: readonly string[];
  /** The tests start a server. */
  readonly needsServer?: true;
}

const MYSQL_EDGES = ["test/stores/mysql/procedures.test.ts"];
const MYSQL_MODEL = ["test/stores/mysql/model.test.ts"];
const ABANDONMENT = ["src/core/lease/abandonment.test.ts"];
const NEVER_SILENT = { find: "if (unanswered === MOST_UNANSWERED) return true;", put: "" };

export const unitMutants: readonly UnitMutant[] = [
  {
    name: "the list of pending ids has no bound",
    file: "core/lease/abandonment.ts",
    edits: [
      {
        find: "    if (this.#byId.size >= MOST_PENDING) this.#dropFirstToEnd();\n",
        put: "    if (this.#byId.size < 0) this.#dropFirstToEnd();\n",
      },
    ],
    tests: ABANDONMENT,
  },
  {
    name: "a full list drops the id whose lease lasts longest",
    file: "core/lease/abandonment.ts",
    edits: [
      {
        find: "    this.#ends.set(pending, pending.overAtMs);\n",
        put: "    this.#ends.set(pending, -pending.overAtMs);\n",
      },
    ],
    tests: ABANDONMENT,
  },
  {
    name: "full batches are not paced",
    file: "core/lease/abandonment.ts",
    edits: [{ find: "const PACE_MS = 50;", put: "const PACE_MS = 0;" }],
    tests: ABANDONMENT,
  },
  {
    name: "an attempt that was not sent is abandoned",
    file: "core/acquire/first-attempt.ts",
    edits: [
      { find: "    if (isUnsent(error)) this", put: "    if (isUnsent(error) && error === null) this" },
    ],
    tests: ABANDONMENT,
  },
  {
    name: "a waiter that was not sent is abandoned",
    file: "core/acquire/acquisition.ts",
    edits: [
      {
        find: "if (isUnsent(error) && this.#request.id === request.id) this.#maybeSent = maybeSent;",
        put: "if (isUnsent(error) && this.#request.id === request.id) this.#maybeSent = maybeSent || true;",
      },
    ],
    tests: ABANDONMENT,
  },
  {
    name: "a repeated call counts as not sent because its last try was not",
    file: "core/util/store-call.ts",
    edits: [{ find: "        if (isUnsent(again)) continue;\n", put: "" }],
    tests: ABANDONMENT,
  },
  {
    name: "a silent store is sent every call",
    file: "core/util/store-call.ts",
    edits: [{ find: "    if (this.#timeouts < SILENT_TIMEOUTS ||", put: "    if (this.#timeouts < 1e9 ||" }],
    tests: ABANDONMENT,
  },
  {
    name: "a pool of half-open connections is never silent",
    file: "stores/shared/pool-health.ts",
    edits: [{ find: "    this.#silentAtMs = nowMs;\n    return true;\n", put: "    return false;\n" }],
    tests: ["src/stores/shared/pool-health.test.ts"],
  },
  {
    name: "a half-open connection is never silent",
    file: "stores/shared/connection-health.ts",
    edits: [NEVER_SILENT],
    tests: ["src/stores/shared/connection-health.test.ts"],
  },
  {
    name: "Redis goes on using a half-open connection",
    file: "stores/shared/connection-health.ts",
    edits: [NEVER_SILENT],
    tests: ["test/stores/redis/half-open.test.ts"],
    needsServer: true,
  },
  {
    name: "Redlock goes on using half-open connections to its nodes",
    file: "stores/shared/connection-health.ts",
    edits: [NEVER_SILENT],
    tests: ["test/stores/redlock/half-open.test.ts"],
    needsServer: true,
  },
  {
    name: "PostgreSQL goes on using the connections of a silent pool",
    file: "stores/postgres/client/connections.ts",
    edits: [
      {
        find: "if (this.#health.isUsable(client)) return client;",
        put: "if (signal !== null) return client;",
      },
    ],
    tests: ["test/stores/postgres/half-open.test.ts"],
    needsServer: true,
  },
  {
    name: "MySQL goes on using the connections of a silent pool",
    file: "stores/mysql/client/pool.ts",
    edits: [{ find: "if (isSilent || (this.#finder.several", put: "if ((this.#finder.several" }],
    tests: ["test/stores/mysql/half-open.test.ts"],
    needsServer: true,
  },
  {
    name: "etcd keeps a member that does not answer",
    file: "stores/etcd/cluster/member-watchdog.ts",
    edits: [
      {
        find: "      this.#cluster.drop(member);\n",
        put: `      if (result === "no leader") this.#cluster.drop(member);\n`,
      },
    ],
    tests: ["test/stores/etcd/half-open.test.ts"],
    needsServer: true,
  },
  {
    name: "ZooKeeper waits for a silent server as long as its session allows",
    file: "stores/zookeeper/wire/connection.ts",
    edits: [{ find: "const LONGEST_READ_MS = 3_000;", put: "const LONGEST_READ_MS = 30_000;" }],
    tests: ["test/stores/zookeeper/network.test.ts"],
    needsServer: true,
  },
  {
    name: "a cycle counts although its members have not repeated their notes",
    file: "core/deadlock/detector.ts",
    edits: [
      {
        find:
          "before !== undefined && " +
          "foreign.every((record) => record.generation !== generations.get(record.id));",
        put: "foreign.length >= 0;",
      },
    ],
    tests: ["src/core/deadlock/detector.test.ts"],
  },
  {
    name: "one request that cannot be abandoned keeps the others",
    file: "stores/shared/abandon-each.ts",
    edits: [{ find: "        errors.set(request, error);\n", put: "        throw error;\n" }],
    tests: ["src/stores/shared/abandon-each.test.ts"],
  },
  {
    name: "a damaged record in Redis fails the renewal of all leases",
    file: "stores/redis/scripts/guarded.lua",
    edits: [
      { find: "local done, answer = pcall(run, a, b)", put: "local done, answer = true, run(a, b)" },
      // A batch that fails is renewed one by one, which hides a script that fails as a whole.
      {
        file: "stores/redis/store.ts",
        find: "async () => (await Promise.all(items.map(alone))).flat(),",
        put: "() => this.#commands.renew(items, io),",
      },
    ],
    tests: ["test/stores/redis/damaged-neighbour.test.ts"],
    needsServer: true,
  },
  {
    name: "a damaged record in Redis fails every key of its batch",
    file: "stores/redis/scripts/fast-path.lua",
    edits: [
      {
        find: "decided, answer = pcall(decide, at, ARGV[at + 1])",
        put: "answer = decide(at, ARGV[at + 1])",
      },
    ],
    tests: ["test/stores/redis/damaged-neighbour.test.ts"],
    needsServer: true,
  },
  {
    name: "a damaged record on the nodes of a redlock fails the renewal of all leases",
    file: "stores/redlock/scripts/renew.lua",
    edits: [
      {
        find: "local good, answer = pcall(renew, KEYS[at], 4 + (at - 2) * 5)",
        put: "local good, answer = true, renew(KEYS[at], 4 + (at - 2) * 5)",
      },
    ],
    tests: ["test/stores/redlock/damaged-neighbour.test.ts"],
    needsServer: true,
  },
  {
    name: "a damaged row fails the renewal of all leases",
    file: "stores/postgres/renew.ts",
    edits: [
      {
        find: `return { state: "unknown", cause: damagedRow(request.keys[0] as string) };`,
        put: `throw damagedRow(request.keys[0] as string);`,
      },
    ],
    tests: ["test/stores/postgres/fuzz.test.ts"],
    needsServer: true,
  },
  {
    name: "a damaged record in etcd fails the renewal of all leases",
    file: "stores/etcd/held-keys.ts",
    edits: [
      {
        find: `(error: unknown) => void results.set(one.held.id, etcdError(error, "renew the lease")),`,
        put: `(error: unknown) => Promise.reject(etcdError(error, "renew the lease")),`,
      },
    ],
    tests: ["test/stores/etcd/damaged-neighbour.test.ts"],
    needsServer: true,
  },
  {
    name: "a damaged node in ZooKeeper fails the renewal of all leases",
    file: "stores/zookeeper/held-nodes.ts",
    edits: [
      { find: "if (error instanceof ConnectionLost) throw error;", put: "if (error !== null) throw error;" },
    ],
    tests: ["test/stores/zookeeper/damaged-neighbour.test.ts"],
    needsServer: true,
  },
  {
    name: "MySQL ends a session that was woken while it read",
    file: "stores/mysql/wakeup-session.ts",
    edits: [{ find: "if (!connection.alive || codeOf(error)", put: "if (connection.alive || codeOf(error)" }],
    tests: MYSQL_EDGES,
    needsServer: true,
  },
  {
    name: "MySQL cleans away a damaged fence",
    file: "stores/mysql/sql/procedures.sql",
    edits: [{ find: " AND l.fence < {fence_limit}", put: "" }],
    tests: MYSQL_EDGES,
    needsServer: true,
  },
  {
    name: "MySQL grants to a newcomer before those who wait",
    file: "stores/mysql/sql/procedures.sql",
    edits: [{ find: "IF NOT v_fits OR v_before > 0 OR v_ready", put: "IF NOT v_fits OR v_ready" }],
    tests: MYSQL_MODEL,
    needsServer: true,
  },
  {
    name: "MySQL gives a fence by the clock alone",
    file: "stores/mysql/sql/procedures.sql",
    edits: [{ find: "SET v_fence = GREATEST(l_fence + 1, v_now);", put: "SET v_fence = v_now;" }],
    tests: MYSQL_MODEL,
    needsServer: true,
  },
  {
    name: "MySQL grants a request that has ended",
    file: "stores/mysql/sql/procedures.sql",
    edits: [{ find: "SET v_is_ended = 1;", put: "SET v_is_ended = 0;" }],
    tests: MYSQL_EDGES,
    needsServer: true,
  },
  {
    name: "MySQL reserves a key for as long as its waiter lives",
    file: "stores/mysql/sql/procedures.sql",
    edits: [{ find: "alive_us = LEAST(alive_us, p_now + v_claim)", put: "alive_us = alive_us" }],
    tests: MYSQL_MODEL,
    needsServer: true,
  },
];
