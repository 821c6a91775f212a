// A web application of NestJS that runs as several processes: one payment of an order at a time, and a
// nightly job that runs on one of them.

import "reflect-metadata";
import {
  type ArgumentsHost,
  Catch,
  Controller,
  type ExceptionFilter,
  Get,
  Inject,
  Injectable,
  type INestApplication,
  Module,
  Param,
  Post,
  type Type,
} from "@nestjs/common";
import { APP_FILTER, NestFactory } from "@nestjs/core";
import { Cron, ScheduleModule } from "@nestjs/schedule";
import { HealthCheck, HealthCheckService, TerminusModule } from "@nestjs/terminus";
import { LockAbortedError, LockTimeoutError } from "holdfast";
import { currentLease, HoldfastHealth, HoldfastModule, Once, WithLock } from "holdfast/nestjs";

/** What takes the money. */
export interface Bank {
  charge(order: string, signal: AbortSignal): Promise<string>;
  closeTheDay(): Promise<void>;
}

const BANK = Symbol("bank");

@Injectable()
export class Payments {
  readonly #bank: Bank;

  constructor(@Inject(BANK) bank: Bank) {
    this.#bank = bank;
  }

  @WithLock((order: string) => `order:${order}`, { wait: "1m" })
  async charge(order: string): Promise<string> {
    // The signal aborts if the lease is lost, or if shutting down takes longer than `drain`.
    return this.#bank.charge(order, currentLease().signal);
  }

  @Cron("0 3 * * *", { name: "close the day" })
  @Once("close-the-day", { atLeast: "10m" })
  async closeTheDay(): Promise<void> {
    await this.#bank.closeTheDay();
  }
}

@Controller()
class PaymentsController {
  readonly #payments: Payments;
  readonly #health: HealthCheckService;
  readonly #locks: HoldfastHealth;

  constructor(
    @Inject(Payments) payments: Payments,
    @Inject(HealthCheckService) health: HealthCheckService,
    @Inject(HoldfastHealth) locks: HoldfastHealth,
  ) {
    this.#payments = payments;
    this.#health = health;
    this.#locks = locks;
  }

  @Post("orders/:order/payment")
  pay(@Param("order") order: string): Promise<string> {
    return this.#payments.charge(order);
  }

  @Get("health")
  @HealthCheck()
  health(): Promise<unknown> {
    return this.#health.check([() => this.#locks.check("locks")]);
  }
}

/** A busy order, or a process that shuts down: the client may try again, and reaches another process. */
@Catch(LockAbortedError, LockTimeoutError)
class Unavailable implements ExceptionFilter {
  catch(error: Error, host: ArgumentsHost): void {
    const response = host
      .switchToHttp()
      .getResponse<{ status(code: number): { send(text: string): void } }>();
    response.status(503).send(error.message);
  }
}

function applicationModule(store: string, label: string, bank: Bank): Type<unknown> {
  @Module({
    imports: [
      HoldfastModule.forRoot({ store, label, drain: "60s" }),
      ScheduleModule.forRoot(),
      TerminusModule,
    ],
    controllers: [PaymentsController],
    providers: [{ provide: BANK, useValue: bank }, Payments, { provide: APP_FILTER, useClass: Unavailable }],
  })
  class ApplicationModule {}
  return ApplicationModule;
}

export async function startApplication(store: string, label: string, bank: Bank): Promise<INestApplication> {
  const app = await NestFactory.create(applicationModule(store, label, bank), { logger: ["error"] });
  // SIGTERM: running methods finish, and new calls are rejected, before the server stops.
  app.enableShutdownHooks();
  await app.listen(0, "127.0.0.1");
  return app;
}
