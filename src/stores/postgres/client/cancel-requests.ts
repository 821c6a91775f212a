// Cancels statements whose callers have given up. A session that waits for a row does not notice that its
// client has gone: it would stay until the row is free, and each further call would add one, up to
// max_connections. A cancel request goes over a connection of its own and needs no free session.
// https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS

import { connect } from "node:net";
import type { PgClient } from "./connections.ts";

/** Requests under way at once. `lock_timeout` ends what no request could be sent for. */
const MOST_REQUESTS = 16;
const REQUEST_LENGTH = 16;
const REQUEST_CODE = 80_877_102;

export class CancelRequests {
  #open = 0;

  /** Nobody waits for it, and it keeps no process alive. */
  send({ host, port, processID, secretKey }: PgClient): void {
    if (typeof processID !== "number" || typeof secretKey !== "number") return;
    if (typeof host !== "string" || typeof port !== "number" || this.#open >= MOST_REQUESTS) return;
    const request = Buffer.alloc(REQUEST_LENGTH);
    // Clients read the two numbers as signed or as unsigned ones.
    [REQUEST_LENGTH, REQUEST_CODE, processID, secretKey].forEach((part, at) =>
      request.writeInt32BE(part | 0, 4 * at),
    );
    const socket = connect(host.startsWith("/") ? { path: `${host}/.s.PGSQL.${port}` } : { host, port });
    this.#open += 1;
    socket.unref();
    socket.on("error", () => {});
    socket.once("close", () => (this.#open -= 1));
    socket.end(request, () => socket.destroy());
  }
}
