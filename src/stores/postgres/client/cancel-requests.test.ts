import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, it } from "vitest";
import { CancelRequests } from "./cancel-requests.ts";
import type { PgClient } from "./connections.ts";

/** pg reads the secret as a signed number, postgres.js as an unsigned one. */
it.each([-1_300_513_053, 2_994_454_243])("sends the secret %s as the server gave it", async (secretKey) => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const connected = once(server, "connection");
  const client = { host: "127.0.0.1", port, processID: 42, secretKey } as unknown as PgClient;
  new CancelRequests().send(client);
  const [socket] = (await connected) as [Socket];
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(socket, "end");
  expect(Buffer.concat(chunks).toString("hex")).toBe("0000001004d2162e0000002ab27bbee3");
  socket.destroy();
  server.close();
});
