// A client of Prisma without a model, over the runtime of @prisma/client: what `prisma generate` writes
// for an empty schema. That command downloads an engine, which tests must not need.

import { getPrismaClient, type PrismaClientOptions } from "@prisma/client/runtime/client";

type Provider = "postgresql" | "mysql";

/** The part of the client that the tests use. */
export interface RawClient {
  $executeRawUnsafe(sql: string): Promise<number>;
  $queryRawUnsafe(sql: string, ...values: unknown[]): Promise<unknown>;
}

export interface PrismaClient extends RawClient {
  $connect(): Promise<void>;
  $transaction<T>(work: (tx: RawClient) => Promise<T>, options: { readonly timeout: number }): Promise<T>;
  $disconnect(): Promise<void>;
}

export function openPrisma(provider: Provider, adapter: PrismaClientOptions["adapter"]): PrismaClient {
  const Client = getPrismaClient({
    previewFeatures: [],
    clientVersion: "7.10.0",
    engineVersion: "7.10.0",
    activeProvider: provider,
    inlineSchema: `datasource db {\n  provider = "${provider}"\n}\n`,
    runtimeDataModel: { models: {}, enums: {}, types: {} },
    // Three counts of zero.
    parameterizationSchema: { strings: [], graph: Buffer.alloc(64).toString("base64url") },
    compilerWasm: {
      importName: `./query_compiler_fast_bg.js`,
      getRuntime: () => import(`@prisma/client/runtime/query_compiler_fast_bg.${provider}.mjs`),
      getQueryCompilerWasmModule: async () => {
        const { wasm } = (await import(
          `@prisma/client/runtime/query_compiler_fast_bg.${provider}.wasm-base64.mjs`
        )) as { wasm: string };
        const { WebAssembly } = globalThis as unknown as {
          WebAssembly: { Module: new (code: Buffer) => object };
        };
        return new WebAssembly.Module(Buffer.from(wasm, "base64"));
      },
    },
  } as never);
  return new Client({ adapter } as never) as unknown as PrismaClient;
}
