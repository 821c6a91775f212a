// The module is a dynamic module of NestJS, and the decorators check their keys. Compiled, never run.

import type { DynamicModule, ModuleMetadata } from "@nestjs/common";
import type { HealthIndicatorFunction } from "@nestjs/terminus";
import type { Locks } from "holdfast";
import { expectTypeOf } from "vitest";
import { type HoldfastHealth, HoldfastModule, Once, WithLock } from "../../src/nestjs/index.ts";

type Pay = TypedPropertyDescriptor<(order: string, amount: number) => Promise<string>>;

export function nest(locks: Locks, health: HoldfastHealth, pay: Pay, target: object): void {
  expectTypeOf(HoldfastModule.forRoot({ store: "memory:" })).toExtend<DynamicModule>();
  const imports: ModuleMetadata["imports"] = [HoldfastModule.forRoot({ locks, drain: "5s" })];
  void imports;
  expectTypeOf(() => health.check("locks")).toExtend<HealthIndicatorFunction>();
  HoldfastModule.forRootAsync({ inject: ["url"], useFactory: async (store: string) => ({ store }) });
  WithLock("orders")(target, "pay", pay);
  WithLock((order: string) => `order:${order}`, { wait: "5s" })(target, "pay", pay);
  Once("nightly", { atLeast: "1m" })(target, "pay", pay);
  // @ts-expect-error: a store or locks
  HoldfastModule.forRoot({});
  // @ts-expect-error: both
  HoldfastModule.forRoot({ store: "memory:", locks });
  // @ts-expect-error: an unknown option
  HoldfastModule.forRoot({ store: "memory:", retries: 3 });
  // @ts-expect-error: the key reads another argument than the method has
  WithLock((order: number) => `order:${order}`)(target, "pay", pay);
  // @ts-expect-error: atLeast is required
  Once("nightly", {});
  const now = { value: () => 5 };
  // @ts-expect-error: the method does not return a promise
  WithLock("orders")(target, "now", now);
}
