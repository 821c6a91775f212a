// The encoding of ZooKeeper's protocol: values are read back as they were written, chunks may be cut
// anywhere, and malformed bytes are a ProtocolError: no wrong value, no other exception, no loop and no
// wasted memory.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { closeFrame, FRAME_HEAD, FrameCutter, LARGEST_FRAME, splitByBytes, STRING_HEAD } from "./frames.ts";
import { readConnectReply, writeConnectRequest } from "./handshake.ts";
import { JuteReader, JuteWriter, ProtocolError } from "./jute.ts";
import * as ops from "./ops.ts";
import { anyText } from "../../../../test/support/any-text.ts";

const int = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const long = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const text = anyText({ maxLength: 300 });
const bytes = fc.uint8Array({ maxLength: 400 });

/** One value of each kind, written and read in the same order. */
const value = fc.oneof(
  int.map((was) => ({ kind: "int" as const, was })),
  long.map((was) => ({ kind: "long" as const, was })),
  fc.boolean().map((was) => ({ kind: "bool" as const, was })),
  text.map((was) => ({ kind: "string" as const, was })),
  fc.option(bytes).map((was) => ({ kind: "buffer" as const, was })),
  fc.array(text, { maxLength: 10 }).map((was) => ({ kind: "list" as const, was })),
);

type Value = typeof value extends fc.Arbitrary<infer T> ? T : never;

function write(out: JuteWriter, one: Value): void {
  if (one.kind === "list") out.list(one.was, (entry) => out.string(entry));
  else if (one.kind === "buffer") out.buffer(one.was);
  else if (one.kind === "int") out.int(one.was);
  else if (one.kind === "long") out.long(one.was);
  else if (one.kind === "bool") out.bool(one.was);
  else out.string(one.was);
}

function read(from: JuteReader, kind: string): unknown {
  if (kind === "list") return from.list(() => from.string());
  if (kind !== "buffer") return from[kind as "int"]();
  const found = from.buffer();
  return found === null ? null : new Uint8Array(found);
}

function frame(body: Uint8Array): Buffer {
  return closeFrame(Buffer.concat([Buffer.alloc(FRAME_HEAD), body]));
}

const OPS: readonly ops.Op<unknown>[] = [
  ops.create({ path: "/a", data: Buffer.from("x"), acl: ops.OPEN_ACL, flags: ops.Flags.container }),
  ops.createPath({ path: "/a", data: Buffer.from("x"), acl: ops.OWN_ACL, flags: ops.Flags.persistent }),
  ops.exists("/a"),
  ops.getData("/a"),
  ops.setData("/a", Buffer.from("x")),
  ops.getChildren("/a"),
  ops.sync("/a"),
  ops.multi([ops.createPath({ path: "/a", data: Buffer.from("x"), acl: [], flags: 0 }), ops.check("/a")]),
];

/** A result, or a ProtocolError. Anything else is thrown on. */
function tried(run: () => unknown): "read" | "refused" {
  try {
    run();
    return "read";
  } catch (error) {
    if (error instanceof ProtocolError) return "refused";
    throw error;
  }
}

describe("values", () => {
  it("are read as they were written, and nothing is left", () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 20 }), (values) => {
        const out = new JuteWriter();
        for (const one of values) write(out, one);
        const from = new JuteReader(out.bytes);
        for (const one of values) expect(read(from, one.kind)).toEqual(one.was);
        expect(from.left).toBe(0);
      }),
    );
  });

  it("that are cut short are refused at whatever byte", () => {
    fc.assert(
      fc.property(value, fc.nat(), (one, at) => {
        const out = new JuteWriter();
        write(out, one);
        const cut = out.bytes.subarray(0, at % out.bytes.length);
        expect(tried(() => read(new JuteReader(cut), one.kind))).toBe("refused");
      }),
    );
  });

  it("of a length that cannot be true cost nothing", () => {
    for (const length of [-2, -(2 ** 31), 2 ** 31 - 1, 1_000]) {
      const claim = new JuteWriter().int(length).bytes;
      expect(tried(() => new JuteReader(claim).buffer())).toBe("refused");
      expect(tried(() => new JuteReader(claim).list(() => null))).toBe("refused");
    }
  });
});

describe("frames", () => {
  it("come out as they were sent, however the stream is cut", () => {
    const cuts = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(fc.array(bytes, { maxLength: 12 }), cuts, (bodies, sizes) => {
        const stream = Buffer.concat(bodies.map(frame));
        const cutter = new FrameCutter();
        const found: Uint8Array[] = [];
        for (let at = 0, i = 0; at < stream.length; i += 1) {
          const size = sizes[i % sizes.length] as number;
          for (const one of cutter.take(stream.subarray(at, at + size))) found.push(new Uint8Array(one));
          at += size;
        }
        expect(found).toEqual(bodies.map((body) => new Uint8Array(body)));
      }),
    );
  });

  it("of a length below nothing or beyond reason are refused", () => {
    for (const length of [-1, -(2 ** 31), LARGEST_FRAME + 1, 0x48545450]) {
      const cutter = new FrameCutter();
      expect(tried(() => [...cutter.take(new JuteWriter().int(length).bytes)])).toBe("refused");
    }
  });

  it("never make anything but a ProtocolError of arbitrary bytes", () => {
    fc.assert(
      fc.property(fc.array(bytes, { maxLength: 8 }), (chunks) => {
        const cutter = new FrameCutter();
        tried(() => chunks.flatMap((chunk) => [...cutter.take(Buffer.from(chunk))]));
      }),
      { numRuns: 500 },
    );
  });
});

describe("groups of paths", () => {
  it("keep all of them in their order, none longer than allowed unless one path alone is", () => {
    fc.assert(
      fc.property(fc.array(text, { maxLength: 40 }), fc.integer({ min: 1, max: 900 }), (paths, longest) => {
        const groups = splitByBytes(paths, longest);
        expect(groups.flat()).toEqual(paths);
        expect(groups.length).toBeGreaterThan(0);
        for (const group of groups) {
          const size = group.reduce((sum, path) => sum + Buffer.byteLength(path) + STRING_HEAD, 0);
          expect(size <= longest || group.length === 1).toBe(true);
        }
      }),
    );
  });
});

describe("answers", () => {
  it("of arbitrary bytes are read or refused, whatever was asked", () => {
    let refused = 0;
    fc.assert(
      fc.property(fc.constantFrom(...OPS), bytes, (op, body) => {
        if (tried(() => op.read(new JuteReader(Buffer.from(body)))) === "refused") refused += 1;
      }),
      { numRuns: 2_000 },
    );
    expect(refused).toBeGreaterThan(1_000);
  });

  it("to a multi that do not fit what was asked are refused", () => {
    const multi = ops.multi([ops.check("/a")]);
    const head = (type: number, done: boolean): JuteWriter => new JuteWriter().int(type).bool(done).int(0);
    const end = head(-1, true).bytes;
    const answer = (...parts: Buffer[]): ops.MultiResult[] =>
      multi.read(new JuteReader(Buffer.concat(parts)));
    expect(answer(head(ops.Type.check, false).bytes, end)).toEqual([{ value: null }]);
    expect(answer(head(ops.Type.error, false).int(-101).bytes, end)).toEqual([{ error: -101 }]);
    expect(tried(() => answer(head(ops.Type.delete, false).bytes, end))).toBe("refused");
    const twice = [head(ops.Type.check, false).bytes, head(ops.Type.check, false).bytes, end];
    expect(tried(() => answer(...twice))).toBe("refused");
    expect(tried(() => answer(head(ops.Type.check, false).bytes))).toBe("refused");
  });

  it("to the greeting are read or refused, and carry what was said", () => {
    fc.assert(fc.property(bytes, (body) => void tried(() => readConnectReply(Buffer.from(body)))));
    const password = Buffer.alloc(16, 7);
    const said = new JuteWriter().int(0).int(4_000).long(-5n).buffer(password).bool(false).bytes;
    expect(readConnectReply(said)).toEqual({ timeoutMs: 4_000, id: -5n, password });
    const greeting = writeConnectRequest({ id: 9n, password, timeoutMs: 4_000, lastZxid: 3n });
    expect(greeting.readInt32BE(0)).toBe(greeting.length - FRAME_HEAD);
  });
});
