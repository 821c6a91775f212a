// gRPC keeps the process alive while a stream is open, and a holder has streams for as long as it holds. Core
// keeps the process alive during calls, so a connection never needs to: a process that has nothing left to do
// can end, and releases what it holds.

import type { ChannelCredentials } from "@grpc/grpc-js";
import type { Socket } from "node:net";

/** What gRPC asks of credentials when it connects, since 1.13. */
interface Connecting {
  readonly _createSecureConnector?: (this: Connecting, ...args: unknown[]) => Connector;
}

interface Connector {
  connect(...args: unknown[]): Promise<{ readonly socket: Socket }>;
}

/** The same credentials, for connections that do not keep the process alive. */
export function unreferenced(credentials: ChannelCredentials): ChannelCredentials {
  const real = credentials as Connecting;
  const create = real._createSecureConnector;
  if (create === undefined) return credentials;
  return Object.create(credentials, {
    _createSecureConnector: {
      value: (...args: unknown[]): Connector => {
        const connector = create.apply(real, args);
        const connect = connector.connect.bind(connector);
        connector.connect = async (...to) => {
          const connected = await connect(...to);
          const { socket } = connected;
          socket.unref();
          // An HTTP/2 session refers to its socket again with each stream.
          socket.ref = () => socket;
          return connected;
        };
        return connector;
      },
    },
  }) as ChannelCredentials;
}
