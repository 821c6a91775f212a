// The module: creates the `Locks`, provides them to the application, and closes them when it shuts down.

import type { Locks } from "../core/api.ts";
import type { Duration } from "../core/duration.ts";
import type { LocksOptions } from "../core/options.ts";
import type { Store } from "../core/store.ts";
import { createLocks } from "../create-locks.ts";
import { HoldfastHealth } from "./health.ts";
import { LOCKS } from "./token.ts";

export { LOCKS } from "./token.ts";

interface StoreOptions extends LocksOptions {
  /** A URL, or a store such as `redis({ client })`. */
  readonly store: string | Store;
  readonly locks?: never;
}

interface GivenLocks {
  /** Locks of your own, such as `createTestLocks()`. The module closes them with the application. */
  readonly locks: Locks;
  readonly store?: never;
}

export type HoldfastModuleOptions = (StoreOptions | GivenLocks) & {
  /** How long running callbacks may go on when the application shuts down. @default "10s" */
  readonly drain?: Duration | undefined;
};

type Token = string | symbol | (abstract new (...args: never[]) => unknown);

export interface HoldfastAsyncOptions {
  /** Modules that export what `inject` names. */
  readonly imports?: readonly unknown[];
  /** Arguments of `useFactory`. */
  readonly inject?: readonly Token[];
  readonly useFactory: (...args: never[]) => HoldfastModuleOptions | Promise<HoldfastModuleOptions>;
}

interface FactoryProvider {
  provide: Token;
  inject: Token[];
  useFactory: (...args: never[]) => unknown;
}

/** A `DynamicModule` of NestJS. */
export interface HoldfastDynamicModule {
  module: typeof HoldfastModule;
  global: true;
  /** `never`, because the types of NestJS are not imported: it fits every list of modules. */
  imports: never[];
  providers: FactoryProvider[];
  exports: Token[];
}

const OPTIONS = Symbol.for("holdfast.nestjs.options");
const SHUTDOWN = Symbol.for("holdfast.nestjs.shutdown");

/**
 * Provides a `Locks` to the whole application: by `@Inject(LOCKS)`, and to `@WithLock` and `@Once`.
 *
 * @example
 * @Module({ imports: [HoldfastModule.forRoot({ store: "redis://127.0.0.1:6379" })] })
 * class AppModule {}
 */
export class HoldfastModule {
  static forRoot(options: HoldfastModuleOptions): HoldfastDynamicModule {
    return moduleOf({ useFactory: () => options });
  }

  /**
   * Options that other providers know.
   *
   * @example
   * HoldfastModule.forRootAsync({
   *   inject: [ConfigService],
   *   useFactory: (config: ConfigService) => ({ store: config.getOrThrow("REDIS_URL") }),
   * });
   */
  static forRootAsync(options: HoldfastAsyncOptions): HoldfastDynamicModule {
    return moduleOf(options);
  }
}

function moduleOf({ imports = [], inject = [], useFactory }: HoldfastAsyncOptions): HoldfastDynamicModule {
  return {
    module: HoldfastModule,
    global: true,
    imports: [...imports] as never[],
    providers: [
      { provide: OPTIONS, inject: [...inject], useFactory },
      { provide: LOCKS, inject: [OPTIONS], useFactory: locksOf },
      { provide: SHUTDOWN, inject: [LOCKS, OPTIONS], useFactory: shutdownHook },
      { provide: HoldfastHealth, inject: [LOCKS], useFactory: (locks: Locks) => new HoldfastHealth(locks) },
    ],
    exports: [LOCKS, HoldfastHealth],
  };
}

function locksOf({ drain: _drain, ...options }: HoldfastModuleOptions): Locks {
  if (options.locks !== undefined) return options.locks;
  const { store, ...rest } = options;
  return createLocks(store, rest);
}

/**
 * NestJS calls `beforeApplicationShutdown` before it stops its servers, and before modules close their
 * connections in `onApplicationShutdown`: work that runs under a lock still has its database.
 */
function shutdownHook(locks: Locks, { drain }: HoldfastModuleOptions): object {
  return { beforeApplicationShutdown: () => locks.close({ drain }) };
}
