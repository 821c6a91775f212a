// `@WithLock` and `@Once`: a method of a provider or controller runs under a lock.
//
// How a method finds its locks: the decorator asks NestJS to set a property of the instance, as
// `@Inject` on a property does. Each application therefore has its own.

import { AsyncLocalStorage } from "node:async_hooks";
import type { Locks, MultiLease } from "../core/api.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import type { AcquireOptions, OnceOptions } from "../core/options.ts";
import { LOCKS } from "./token.ts";

/** A key, several keys, or a function of the method's arguments that returns them. */
export type LockKey<A extends unknown[]> =
  | string
  | readonly string[]
  | ((...args: A) => string | readonly string[]);

type AsyncMethod<A extends unknown[]> = (...args: [...A, ...never[]]) => Promise<unknown>;

/** A method decorator, as `experimentalDecorators` calls it. */
export type LockMethod<A extends unknown[]> = <F extends AsyncMethod<A>>(
  target: object,
  name: string | symbol,
  descriptor: TypedPropertyDescriptor<F>,
) => void;

type Run = (locks: Locks, keys: string, work: (lease: MultiLease) => unknown) => Promise<unknown>;

/** What `reflect-metadata` adds to `Reflect`. NestJS loads it. */
interface Metadata {
  defineMetadata?(key: unknown, value: unknown, target: object): void;
  getMetadata(key: unknown, target: object): unknown;
  getOwnMetadataKeys(target: object): unknown[];
}

/** The key under which NestJS keeps what `@Inject` says about properties. */
const INJECTED_PROPERTIES = "self:properties_metadata";
const INJECTED: unique symbol = Symbol.for("holdfast.nestjs.locks");
const leases = new AsyncLocalStorage<MultiLease>();

/**
 * Runs the method under a lock, as `locks.using` does.
 *
 * @example
 * @WithLock((order: string) => `order:${order}`, { wait: "5s" })
 * async charge(order: string): Promise<void> {
 *   await this.bank.charge(order, { signal: currentLease().signal });
 * }
 */
export function WithLock<A extends unknown[] = []>(
  key: LockKey<A>,
  options: AcquireOptions = {},
): LockMethod<A> {
  return decorate(key, (locks, keys, work) => locks.using(keys, options, work));
}

/**
 * Runs the method on one of many replicas, as `locks.once` does. Where another replica has the key, the
 * method does not run and the call resolves with `undefined`.
 *
 * @example
 * @Cron("0 3 * * *")
 * @Once("nightly", { atLeast: "10m" })
 * async nightly(): Promise<void> {}
 */
export function Once<A extends unknown[] = []>(key: LockKey<A>, options: OnceOptions): LockMethod<A> {
  return decorate(key, async (locks, keys, work) => {
    const outcome = await locks.once(keys, options, work);
    return outcome.ran ? outcome.result : undefined;
  });
}

/**
 * The lease under which the method of `@WithLock` or `@Once` runs.
 *
 * @throws InvalidArgumentError outside of such a method.
 */
export function currentLease(): MultiLease {
  const lease = leases.getStore();
  if (lease === undefined)
    throw new InvalidArgumentError("currentLease() is for code that runs under @WithLock or @Once");
  return lease;
}

function decorate<A extends unknown[]>(key: LockKey<A>, run: Run): LockMethod<A> {
  return (target, name, descriptor) => {
    const method = descriptor?.value as ((...args: unknown[]) => unknown) | undefined;
    const metadata = Reflect as unknown as Metadata;
    if (typeof method !== "function" || metadata.defineMetadata === undefined)
      throw new InvalidArgumentError(
        "@WithLock and @Once are for methods of NestJS classes, compiled with experimentalDecorators",
      );
    injectLocks(metadata as Required<Metadata>, target);
    const locked = async function (this: Record<symbol, Locks | undefined>, ...args: A): Promise<unknown> {
      const keys = typeof key === "function" ? key.apply(this, args) : key;
      // `using` and `once` take one key and several alike.
      return run(locksOf(this, name), keys as string, (lease) =>
        leases.run(lease, () => method.apply(this, args)),
      );
    };
    Object.defineProperty(locked, "name", { value: String(name) });
    // Other decorators, such as @Cron and @Get, may already have described the method.
    for (const item of metadata.getOwnMetadataKeys(method))
      metadata.defineMetadata(item, metadata.getMetadata(item, method), locked);
    Object.assign(descriptor, { value: locked });
  };
}

function injectLocks(metadata: Required<Metadata>, target: object): void {
  const type = target.constructor;
  const given = (metadata.getMetadata(INJECTED_PROPERTIES, type) ?? []) as readonly { key: unknown }[];
  if (given.some((one) => one.key === INJECTED)) return;
  metadata.defineMetadata(INJECTED_PROPERTIES, [...given, { key: INJECTED, type: LOCKS }], type);
}

function locksOf(instance: Record<symbol, Locks | undefined>, name: string | symbol): Locks {
  const locks = instance[INJECTED];
  if (locks !== undefined) return locks;
  throw new InvalidArgumentError(
    `${String(name)} has no locks, because NestJS did not create its object: ` +
      "is the class a provider or controller of an application that imports HoldfastModule?",
  );
}
