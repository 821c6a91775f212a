// `holdfast schema`: prints the statements that create the tables of an SQL store, for operators who do not
// let applications create them. It opens no connection.

import { CommandError, EXIT } from "./exit-codes.ts";
import { print } from "./output.ts";

export interface SchemaFlags {
  readonly table?: string;
}

/** What the index of an SQL store exports. */
interface SqlStore {
  readonly schemaSql?: (table?: string) => string | Promise<string>;
}

const STORES: Readonly<Record<string, () => Promise<SqlStore>>> = {
  postgres: () => import("../stores/postgres/index.ts"),
  mysql: (): Promise<object> => import("../stores/mysql/index.ts"),
};

export async function schema(store: string, { table }: SchemaFlags): Promise<number> {
  const load = Object.hasOwn(STORES, store) ? STORES[store] : undefined;
  if (load === undefined)
    throw new CommandError(
      `the store must be ${Object.keys(STORES).join(" or ")}, got ${JSON.stringify(store)}`,
      EXIT.usage,
    );
  const { schemaSql } = await load();
  if (schemaSql === undefined)
    throw new CommandError(`the schema of ${store} is not available in this version`, EXIT.usage);
  print((await schemaSql(table)).trimEnd());
  return 0;
}
