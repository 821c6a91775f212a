// The module, the decorators and the health indicator in applications of the real NestJS. The decorators are
// applied by hand: this file is compiled without `experimentalDecorators`.

import "reflect-metadata";
import { type INestApplicationContext, Injectable, Module, type Provider, type Type } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Cron, ScheduleModule, SchedulerRegistry } from "@nestjs/schedule";
import { HealthCheckService, TerminusModule } from "@nestjs/terminus";
import { afterEach, expect, it } from "vitest";
import { InvalidArgumentError, LockAbortedError, type Locks, LockTimeoutError } from "../../src/index.ts";
import {
  currentLease,
  HoldfastHealth,
  HoldfastModule,
  LOCKS,
  Once,
  WithLock,
} from "../../src/nestjs/index.ts";
import { createTestLocks } from "../../src/testing/index.ts";

const opened: INestApplicationContext[] = [];
afterEach(async () => {
  for (const app of opened.splice(0)) await app.close();
});

type Decorator = (target: object, name: string, descriptor: never) => void;

/** As a compiler applies decorators: the one closest to the method first. */
function decorateMethod(type: Type<unknown>, name: string, ...decorators: Decorator[]): void {
  const prototype = type.prototype as object;
  const descriptor = Object.getOwnPropertyDescriptor(prototype, name) as PropertyDescriptor;
  for (const decorator of decorators.toReversed()) decorator(prototype, name, descriptor as never);
  Object.defineProperty(prototype, name, descriptor);
}

async function start(providers: Provider[], ...imports: unknown[]): Promise<INestApplicationContext> {
  class Application {}
  for (const one of providers) if (typeof one === "function") Injectable()(one);
  Module({ imports: imports as never[], providers })(Application);
  const app = await NestFactory.createApplicationContext(Application, { logger: false, abortOnError: false });
  opened.push(app);
  return app;
}

class Orders {
  pay(order: string, work: () => Promise<unknown>): Promise<unknown> {
    return work().then((paid) => `${order}: ${String(paid)}`);
  }
}
decorateMethod(
  Orders,
  "pay",
  WithLock((order: string) => `order:${order}`, { wait: "5s" }),
);

class Jobs {
  runs = 0;

  nightly(): Promise<number> {
    this.runs += 1;
    return Promise.resolve(this.runs);
  }
}
decorateMethod(Jobs, "nightly", Once("nightly", { atLeast: "1m" }), Cron("0 3 * * *", { name: "below" }));

it("@WithLock runs a method under the lock of its arguments, with its lease at hand", async () => {
  const locks = createTestLocks();
  const app = await start([Orders], HoldfastModule.forRoot({ locks }));
  const orders = app.get(Orders);
  expect(app.get<Locks>(LOCKS)).toBe(locks);
  expect(await orders.pay("1", async () => currentLease().key)).toBe("1: order:1");
  expect(orders.pay.name).toBe("pay");

  locks.busy("order:2", "worker-7");
  const busy = expect(orders.pay("2", async () => "never")).rejects.toThrow(LockTimeoutError);
  await locks.advance(5_000);
  await busy;

  const lost = orders.pay("3", async () => {
    locks.lose("order:3");
    currentLease().signal.throwIfAborted();
  });
  await expect(lost).rejects.toThrow("order:3");
  expect(() => currentLease()).toThrow(InvalidArgumentError);
});

it("each application in a process has locks of its own", async () => {
  const both = [createTestLocks(), createTestLocks()] as const;
  const [one, other] = await Promise.all(
    both.map((locks) => start([Orders], HoldfastModule.forRoot({ locks }))),
  );
  both[0].busy("order:1");
  const busy = expect(one!.get(Orders).pay("1", async () => "never")).rejects.toThrow(LockTimeoutError);
  expect(await other!.get(Orders).pay("1", async () => "paid")).toBe("1: paid");
  await both[0].advance(5_000);
  await busy;
});

it("@Once runs a job of @Cron on one replica, in either order of the decorators", async () => {
  class Above {
    tick(): Promise<string> {
      return Promise.resolve("ran");
    }
  }
  decorateMethod(Above, "tick", Cron("0 3 * * *", { name: "above" }), Once("tick", { atLeast: "1m" }));
  const locks = createTestLocks();
  const app = await start([Jobs, Above], HoldfastModule.forRoot({ locks }), ScheduleModule.forRoot());
  const jobs = app.get(SchedulerRegistry).getCronJobs();
  expect([...jobs.keys()].toSorted()).toEqual(["above", "below"]);
  await jobs.get("below")!.fireOnTick();
  await expect.poll(() => app.get(Jobs).runs).toBe(1);
  expect(await app.get(Jobs).nightly()).toBe(undefined);
  await locks.advance(61_000);
  expect(await app.get(Jobs).nightly()).toBe(2);
  expect(await app.get(Above).tick()).toBe("ran");
  expect(await app.get(Above).tick()).toBe(undefined);
});

it("forRootAsync asks a factory with what it injects, and the module opens a store by its URL", async () => {
  const SETTINGS = Symbol("settings");
  class Settings {}
  Module({ providers: [{ provide: SETTINGS, useValue: "memory:nestjs" }], exports: [SETTINGS] })(Settings);
  const useFactory = async (store: string): Promise<{ store: string; label: string }> => ({
    store,
    label: "replica 1",
  });
  const app = await start(
    [Orders],
    HoldfastModule.forRootAsync({ imports: [Settings], inject: [SETTINGS], useFactory }),
  );
  const label = await app.get(Orders).pay("1", async () => currentLease().label);
  expect(label).toBe("1: replica 1");
});

it("shutting down waits for methods that run, and rejects new ones", async () => {
  const app = await start([Orders], HoldfastModule.forRoot({ store: "memory:", drain: "1h" }));
  const [orders, locks] = [app.get(Orders), app.get<Locks>(LOCKS)];
  let finish = (_value: string): void => {};
  const running = orders.pay("1", () => new Promise<string>((resolve) => (finish = resolve)));
  await expect.poll(() => locks.inspect("order:1")).not.toBe(null);
  const closed = app.close();
  await expect
    .poll(() => orders.pay("2", async () => "late").catch((error: unknown) => error))
    .toBeInstanceOf(LockAbortedError);
  finish("paid");
  expect(await running).toBe("1: paid");
  await closed;
});

it("the health indicator is up, and down while the store cannot be reached", async () => {
  const locks = createTestLocks();
  const app = await start([], HoldfastModule.forRoot({ locks }), TerminusModule);
  const [health, holdfast] = [app.get(HealthCheckService), app.get(HoldfastHealth)];
  const look = () => health.check([() => holdfast.check("locks")]);
  expect(await look()).toMatchObject({ status: "ok", info: { locks: { status: "up", findings: [] } } });
  const up = locks.storeDown();
  await expect(look()).rejects.toMatchObject({ response: { error: { locks: { status: "down" } } } });
  up();
});

it("says what is missing", async () => {
  await expect(start([Orders])).rejects.toThrow("holdfast.locks");
  await expect(new Orders().pay("1", async () => "never")).rejects.toThrow("imports HoldfastModule");
  const standard = WithLock("k") as unknown as (value: unknown, context: object) => void;
  expect(() => standard(() => {}, {})).toThrow("experimentalDecorators");
});
