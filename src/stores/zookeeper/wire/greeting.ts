// The first frame each way: who we are, and whether the server still knows our session.

import { JuteReader, JuteWriter, ProtocolError } from "./jute.ts";
import { closeFrame, FRAME_HEAD } from "./frames.ts";

/** What proves that a session is ours. */
export interface Credentials {
  /** 0 asks for a new session. */
  readonly id: bigint;
  readonly password: Buffer;
}

export interface Greeting extends Credentials {
  readonly timeoutMs: number;
  /** The newest transaction that we have seen: a server that lags behind it hangs up. */
  readonly lastZxid: bigint;
}

export interface Welcome extends Credentials {
  /** As negotiated; 0 or less when the session has expired. */
  readonly timeoutMs: number;
}

export const NO_SESSION: Credentials = { id: 0n, password: Buffer.alloc(16) };

export function writeGreeting(greeting: Greeting): Buffer {
  const out = new JuteWriter(FRAME_HEAD).int(0).long(greeting.lastZxid).int(greeting.timeoutMs);
  // The last flag: a server that has lost its ensemble and could only read is of no use here.
  return closeFrame(out.long(greeting.id).buffer(greeting.password).bool(false).bytes);
}

export function readWelcome(frame: Buffer): Welcome {
  const from = new JuteReader(frame);
  const version = from.int();
  if (version !== 0) throw new ProtocolError(`version ${version} of the protocol`);
  const timeoutMs = from.int();
  const id = from.long();
  // Copied: the frame is a piece of a larger buffer.
  return { timeoutMs, id, password: Buffer.from(from.buffer() ?? []) };
}
