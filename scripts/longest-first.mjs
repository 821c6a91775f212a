// The order in which vitest starts the files of tests: the longest first, so that no long file is left for
// the end. The list names files that take 10 seconds or more on two idle cores; the others follow by name.
import { relative } from "node:path";
import { BaseSequencer } from "vitest/node";

const LONGEST = [
  "test/stores/etcd/conformance.test.ts",
  "test/conformance/self-check.test.ts",
  "test/faults/stores.test.ts",
  "test/stores/mysql/conformance.test.ts",
  "test/stores/zookeeper/conformance.test.ts",
  "test/stores/postgres/conformance.test.ts",
  "test/stores/local/conformance.test.ts",
  "test/stores/redis/conformance.test.ts",
  "test/stores/redlock/conformance.test.ts",
  "test/sim/runs.test.ts",
  "test/sim/redlock-model.test.ts",
  "test/cli/run.test.ts",
  "test/stores/redlock/frozen-node.test.ts",
  "test/stores/postgres/limits.test.ts",
  "test/faults/outage.test.ts",
  "test/orm/transactions.test.ts",
  "test/stores/postgres/fuzz.test.ts",
  "test/stores/etcd/fuzz.test.ts",
  "test/cli/operate.test.ts",
  "test/cli/signals.test.ts",
  "test/security/secrets.test.ts",
  "test/stores/redis/path-length.test.ts",
  "test/stores/mysql/session-settings.test.ts",
  "test/stores/mysql/model.test.ts",
  "test/stores/local/store.test.ts",
  "test/package/package.test.ts",
  "test/cli/doctor.test.ts",
  "test/stores/local/processes.test.ts",
  "test/stores/redis/rights.test.ts",
  "test/stores/mysql/table.test.ts",
  "test/stores/redlock/nodes.test.ts",
  "test/examples/ladder.test.ts",
  "test/security/tls.test.ts",
  "test/cli/killed.test.ts",
  "test/cli/lost.test.ts",
  "test/cli/usage.test.ts",
  "test/stores/local/stop-points.test.ts",
  "test/stores/local/directory.test.ts",
  "test/stores/redis/first-call.test.ts",
  "test/stores/redlock/first-call.test.ts",
  "test/stores/mysql/first-call.test.ts",
  "test/stores/postgres/first-call.test.ts",
  "test/stores/zookeeper/first-call.test.ts",
  "test/stores/zookeeper/limits.test.ts",
  "test/stores/etcd/first-call.test.ts",
  "test/stores/mysql/transaction.test.ts",
  "test/stores/postgres/model.test.ts",
  "test/stores/postgres/processes.test.ts",
  "test/docs/markdown.test.ts",
];

export class LongestFirst extends BaseSequencer {
  sort(specifications) {
    const place = ({ moduleId }) => {
      const at = LONGEST.indexOf(relative(this.ctx.config.root, moduleId));
      return at === -1 ? LONGEST.length : at;
    };
    return specifications.toSorted(
      (one, two) => place(one) - place(two) || one.moduleId.localeCompare(two.moduleId),
    );
  }
}
