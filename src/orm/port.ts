// What the adapters for ORMs and query builders share: a transaction of a library becomes the one port that
// the SQL stores know. No adapter loads its library.

import type { TransactionPort } from "../core/store.ts";

type Row = Readonly<Record<string, unknown>>;

/** Libraries wrap the error of the driver, and some wrap it twice. */
const WRAPPED_AT_MOST = 5;

/** @param run sends one statement in the transaction and resolves with what the library makes of the answer */
export function portOf(
  adapts: object,
  run: (text: string, values: readonly unknown[]) => Promise<unknown>,
): TransactionPort {
  return {
    adapts,
    query: async (text, values) => {
      try {
        return rowsOf(await run(text, values.map(asBuffer)));
      } catch (error) {
        throw driverErrorOf(error);
      }
    },
  };
}

/** For libraries that number no placeholders: `$2 = $1` becomes `? = ?` with the values in that order. */
export function withQuestionMarks(
  text: string,
  values: readonly unknown[],
): { readonly text: string; readonly values: readonly unknown[] } {
  if (!/\$\d/.test(text)) return { text, values };
  const inOrder: unknown[] = [];
  const replaced = text.replace(/\$(\d+)/g, (_all, number: string) => {
    inOrder.push(values[Number(number) - 1]);
    return "?";
  });
  return { text: replaced, values: inOrder };
}

/** Drivers read a Buffer as binary, and some read a plain Uint8Array as an object. */
function asBuffer(value: unknown): unknown {
  return value instanceof Uint8Array && !Buffer.isBuffer(value)
    ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    : value;
}

/** `pg` answers with `{ rows }`, mysql2 with `[rows, fields]`, most libraries with the rows. */
function rowsOf(answer: unknown): readonly Row[] {
  if (Array.isArray(answer)) return (Array.isArray(answer[0]) ? answer[0] : answer) as readonly Row[];
  const rows = (answer as { readonly rows?: unknown } | null | undefined)?.rows;
  return Array.isArray(rows) ? (rows as readonly Row[]) : [];
}

/** The error by which the driver names what the server said: `pg` by `severity`, mysql2 by `errno`. */
function driverErrorOf(error: unknown): unknown {
  let at: unknown = error;
  for (let depth = 0; depth < WRAPPED_AT_MOST && typeof at === "object" && at !== null; depth += 1) {
    const { severity, errno, driverError, cause, meta } = at as Readonly<Record<string, unknown>>;
    if (typeof severity === "string" || typeof errno === "number")
      return at instanceof Error ? at : asError(at, error);
    at =
      driverError ??
      cause ??
      (meta as { readonly driverAdapterError?: unknown } | undefined)?.driverAdapterError;
    if (isMysqlOfPrisma(at)) return asError({ ...at, errno: at.code }, error);
  }
  return error;
}

/** The adapters of Prisma pass on the fields of the driver's error, and not the error. */
function asError(fields: object, cause: unknown): Error {
  return Object.assign(new Error("the server refused a statement", { cause }), fields);
}

function isMysqlOfPrisma(value: unknown): value is { readonly code: number } {
  const { kind, code } = (value ?? {}) as { readonly kind?: unknown; readonly code?: unknown };
  return kind === "mysql" && typeof code === "number";
}
