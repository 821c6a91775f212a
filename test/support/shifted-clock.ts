// A real Redis whose clock is wrong, as far as whoever asks it for the time can tell: a relay before it changes the seconds in the
// answers to TIME, and nothing else.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

const TIME = /\*2\r\n\$10\r\n(\d{10})\r\n/g;

export async function shiftedClock(
  port: number,
  seconds: number,
): Promise<{ readonly port: number; stop(): Promise<void> }> {
  const sockets = new Set<Socket>();
  const relay = createServer((client) => {
    const server = connect({ host: "127.0.0.1", port });
    const shift = (chunk: string): string =>
      chunk.replace(TIME, (_all, told: string) => `*2\r\n$10\r\n${Number(told) + seconds}\r\n`);
    client.on("data", (chunk) => server.write(chunk));
    server.on("data", (chunk) => client.write(shift(chunk.toString("latin1")), "latin1"));
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.once("close", () => {
        client.destroy();
        server.destroy();
      });
    }
  });
  relay.listen(0, "127.0.0.1");
  await once(relay, "listening");
  return {
    port: (relay.address() as AddressInfo).port,
    async stop() {
      relay.close();
      for (const socket of sockets) socket.destroy();
      await once(relay, "close");
    },
  };
}
