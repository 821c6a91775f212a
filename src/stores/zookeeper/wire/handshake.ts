// The first frame each way: which session this is, and whether the server still knows it.

import { JuteReader, JuteWriter, ProtocolError } from "./jute.ts";
import { closeFrame, FRAME_HEAD } from "./frames.ts";

/** Proof that a session is ours. */
export interface Credentials {
  /** 0 asks for a new session. */
  readonly id: bigint;
  readonly password: Buffer;
}

export interface ConnectRequest extends Credentials {
  readonly timeoutMs: number;
  /** The newest transaction that this process has seen. A server that is behind it closes the connection. */
  readonly lastZxid: bigint;
}

export interface ConnectReply extends Credentials {
  /** As negotiated; 0 or less if the session has expired. */
  readonly timeoutMs: number;
}

export const NO_SESSION: Credentials = { id: 0n, password: Buffer.alloc(16) };

export function writeConnectRequest(request: ConnectRequest): Buffer {
  const out = new JuteWriter(FRAME_HEAD).int(0).long(request.lastZxid).int(request.timeoutMs);
  // The last flag: no read-only server that has lost its ensemble.
  return closeFrame(out.long(request.id).buffer(request.password).bool(false).bytes);
}

export function readConnectReply(frame: Buffer): ConnectReply {
  const from = new JuteReader(frame);
  const version = from.int();
  if (version !== 0) throw new ProtocolError(`version ${version} of the protocol`);
  const timeoutMs = from.int();
  const id = from.long();
  // Copied: the frame is part of a larger buffer.
  return { timeoutMs, id, password: Buffer.from(from.buffer() ?? []) };
}
