// The claims of servers to be the primary, as one server knows them.

import { codeOf, DENIED, NO_SUCH_TABLE } from "../errors.ts";
import { type SqlConnection, textOf } from "./port.ts";
import { sql } from "../sql.ts";

export interface Claim {
  readonly server: string;
  /** When it became the primary, by its own clock, and later than every claim before it. */
  readonly sinceUs: number;
  readonly readyUs: number;
  /** When a client last told that it works. */
  readonly seenUs: number;
  /** When the server's process was started. */
  readonly startedUs: number;
  readonly holdMs: number;
}

/** What one server knows. */
export interface KnownClaims {
  readonly claims: readonly Claim[];
  readonly nowUs: number;
  /** Of the schema. */
  readonly version: number;
}

/** null when there is no table of them. */
export async function readClaims(connection: SqlConnection): Promise<KnownClaims | null> {
  const answer = await connection.run(sql["primary_list"]).catch((error: unknown) => {
    // Without any right on a table the server does not even say that it is missing.
    if (codeOf(error) !== NO_SUCH_TABLE && !DENIED.includes(codeOf(error))) throw error;
    return null;
  });
  if (answer === null) return null;
  const { rows } = answer;
  const claims = rows
    .filter((row) => row["server"] !== null)
    .map((row) => ({
      server: textOf(row["server"]),
      sinceUs: Number(row["since_us"]),
      readyUs: Number(row["ready_us"]),
      seenUs: Number(row["seen_us"]),
      startedUs: Number(row["started_us"]),
      holdMs: Number(row["hold_ms"]),
    }));
  return { claims, nowUs: Number(rows[0]?.["now_us"]), version: Number(rows[0]?.["version"] ?? 0) };
}

/** The claim that counts. The same order as in the statements. */
export function newest(claims: readonly Claim[]): Claim | null {
  return claims.reduce<Claim | null>((best, claim) => {
    if (best === null || claim.sinceUs > best.sinceUs) return claim;
    return claim.sinceUs === best.sinceUs && claim.server > best.server ? claim : best;
  }, null);
}
