// Row mode inside a transaction of the caller's: the row is locked by the transaction itself, and its commit
// or rollback lets go. Nothing is written down about it but the fence, which is drawn outside of it while the
// row is locked.

import type { Io, TransactionDesk } from "../../../core/store.ts";
import type { ReconnectingConnection } from "../client/connection.ts";
import type { RowMetadata } from "./metadata.ts";
import type { Dialect } from "../client/port.ts";
import { MysqlTransaction, sharing } from "../transaction.ts";

type Wish = Parameters<TransactionDesk["attempt"]>[0];
type Answer = Awaited<ReturnType<TransactionDesk["attempt"]>>;

export interface RowTransactionDeps {
  readonly connection: ReconnectingConnection;
  readonly metadata: RowMetadata;
  readonly dialect: Dialect;
}

export class RowTransaction implements TransactionDesk {
  readonly #tx: MysqlTransaction;
  readonly #deps: RowTransactionDeps;

  constructor(tx: unknown, deps: RowTransactionDeps) {
    this.#tx = new MysqlTransaction(tx);
    this.#deps = deps;
  }

  async attempt(wish: Wish, io: Io): Promise<Answer> {
    const { dialect, connection } = this.#deps;
    await this.#tx.begin(dialect, (statement) => connection.run(statement, [], io));
    return this.#tx.attempt(() => this.#take(wish, io));
  }

  async #take({ keys, mode }: Wish, io: Io): Promise<Answer> {
    const { metadata, connection, dialect } = this.#deps;
    const clause = mode === "shared" ? sharing(dialect) : "FOR UPDATE";
    const statement = `SELECT 1 FROM holdfast_row WHERE hash = ? ${clause} SKIP LOCKED`;
    const lock = async (key: string): Promise<boolean> =>
      (await this.#tx.run(statement, [metadata.hash(key)])).met === 1;
    for (const key of keys) {
      // A row that is missing must not be asked for in the transaction: that would lock the gap in which it
      // is to be made.
      await metadata.add(key, io);
      if (keys.length === 1) continue;
      // The transaction cannot let go of one row because another is taken: so all are tried outside of it
      // first. What is taken may be its own.
      const free = (await connection.run(statement, [metadata.hash(key)], io)).met === 1;
      if (!free && !(await lock(key))) return this.#busy(key, io);
    }
    for (const key of keys) if (!(await lock(key))) return this.#busy(key, io);
    const fences: bigint[] = [];
    for (const key of keys) fences.push(BigInt(await metadata.drawFence(key, io)));
    return { granted: fences };
  }

  async #busy(key: string, io: Io): Promise<Answer> {
    return { busy: (await this.#deps.metadata.read(key, io)).map(({ info }) => info) };
  }
}
