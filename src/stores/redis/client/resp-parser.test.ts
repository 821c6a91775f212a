import { expect, it } from "vitest";
import { ReplyError, RespParser } from "./resp-parser.ts";

const TEXTS: readonly string[] = [
  "+OK\r\n",
  ":42\r\n",
  ":-1\r\n",
  "$5\r\nhello\r\n",
  "$-1\r\n",
  "$0\r\n\r\n",
  "$13\r\nключ a\r\nb\r\n",
  "*-1\r\n",
  "*0\r\n",
  "-NOSCRIPT No matching script\r\n",
  "*3\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n-ERR in a list\r\n",
];
const VALUES: readonly unknown[] = [
  "OK",
  42,
  -1,
  "hello",
  null,
  "",
  "ключ a\r\nb",
  null,
  [],
  new ReplyError("NOSCRIPT No matching script"),
  ["a", [1, null], new ReplyError("ERR in a list")],
];

function parsed(...chunks: readonly Buffer[]): unknown[] {
  const replies: unknown[] = [];
  const parser = new RespParser((reply) => replies.push(reply));
  for (const chunk of chunks) parser.push(chunk);
  return replies;
}

it("reads every kind of reply, many in one chunk", () => {
  expect(parsed(Buffer.from(TEXTS.join("")))).toEqual(VALUES);
});

it("reads replies that are cut anywhere", () => {
  const bytes = Buffer.from(TEXTS.join(""));
  for (let at = 0; at <= bytes.length; at += 1) {
    for (const second of [at, at + 1, at + 7])
      expect(parsed(bytes.subarray(0, at), bytes.subarray(at, second), bytes.subarray(second))).toEqual(
        VALUES,
      );
  }
  expect(parsed(...[...bytes].map((byte) => Buffer.of(byte)))).toEqual(VALUES);
});

it("reads a large reply in small chunks, each byte once", () => {
  const text = "x".repeat(1_000_000);
  const bytes = Buffer.from(`*2\r\n$1000000\r\n${text}\r\n:7\r\n`);
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 1_000) chunks.push(bytes.subarray(at, at + 1_000));
  expect(parsed(...chunks)).toEqual([[text, 7]]);
});

it.each(["HTTP/1.1 400 Bad Request\r\n", "$x\r\n", "\x15\x03\x01"])("refuses %j", (text) => {
  expect(() => parsed(Buffer.from(text))).toThrow(/this is no Redis/);
});
