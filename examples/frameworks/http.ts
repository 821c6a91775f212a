// A route that runs under a lock, for Fastify, Hono and Express. The work gets the signal of the lease,
// so what it asks of others ends when the lease is lost. A client that goes away leaves the queue.

import type {
  NextFunction,
  Request as ExpressRequest,
  RequestHandler,
  Response as ExpressResponse,
} from "express";
import type { FastifyInstance } from "fastify";
import type { Context, Hono } from "hono";
import { LockError, type Locks } from "holdfast";

/** The work behind the route. */
export type Pay = (order: string, signal: AbortSignal) => Promise<string>;

/** 409: the order is busy. 503: the client may try again, and may reach another process. */
function answerTo(error: unknown): { readonly status: 409 | 503; readonly message: string } {
  if (!LockError.is(error)) throw error;
  return { status: error.code === "ERR_LOCK_TIMEOUT" ? 409 : 503, message: error.message };
}

export function fastifyRoutes(app: FastifyInstance, locks: Locks, pay: Pay): void {
  app.post<{ Params: { order: string } }>("/orders/:order/payment", async (request, reply) => {
    const gone = new AbortController();
    reply.raw.once("close", () => gone.abort());
    const { order } = request.params;
    try {
      const options = { wait: "5s", signal: gone.signal } as const;
      return await locks.using(`order:${order}`, options, (lease) => pay(order, lease.signal));
    } catch (error) {
      const { status, message } = answerTo(error);
      return reply.status(status).send(message);
    }
  });
  // Fastify calls it after the last request.
  app.addHook("onClose", () => locks.close());
}

export function honoRoutes(app: Hono, locks: Locks, pay: Pay): void {
  app.post("/orders/:order/payment", async (context: Context) => {
    const order = context.req.param("order") ?? "";
    try {
      const options = { wait: "5s", signal: context.req.raw.signal } as const;
      return context.text(await locks.using(`order:${order}`, options, (lease) => pay(order, lease.signal)));
    } catch (error) {
      const { status, message } = answerTo(error);
      return context.text(message, status);
    }
  });
}

type Order = { order: string };
type Handler = (
  request: ExpressRequest<Order>,
  response: ExpressResponse,
  signal: AbortSignal,
) => Promise<void>;

/** Runs a handler of Express under the lock of its order. */
export function underLock(locks: Locks, handler: Handler): RequestHandler<Order> {
  return async (request: ExpressRequest<Order>, response: ExpressResponse, next: NextFunction) => {
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    try {
      const options = { wait: "5s", signal: gone.signal } as const;
      const { order } = request.params;
      await locks.using(`order:${order}`, options, (lease) => handler(request, response, lease.signal));
    } catch (error) {
      // The handler may have answered before the lease was lost.
      if (response.headersSent || !LockError.is(error)) return next(error);
      const { status, message } = answerTo(error);
      response.status(status).send(message);
    }
  };
}
