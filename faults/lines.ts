// Whole lines of a socket. Half a line of a peer that was killed is dropped, and a broken connection is only an end.

import type { Socket } from "node:net";

export function onLine(socket: Socket, hear: (line: string) => void): void {
  let rest = "";
  socket.setEncoding("utf8");
  socket.on("data", (chunk: string) => {
    const lines = `${rest}${chunk}`.split("\n");
    rest = lines.pop() as string;
    for (const line of lines) hear(line);
  });
  socket.on("error", () => socket.destroy());
}
