// A server that shows nodes which the leader does not have. ZooKeeper before 3.9.4 has such servers now and then, after a leader was
// killed: who is connected to one would wait for ever for a key that is free.

import type { Link } from "./port.ts";
import { ConnectionLost } from "./wire/errors.ts";

export class Misled extends ConnectionLost {}

/** The session goes on at another server. */
export function misled(link: Link): Misled {
  const { host, port } = link.address;
  const error = new Misled(
    `${host}:${port} shows nodes that its leader does not have: another server is asked`,
  );
  link.leave(error);
  return error;
}
