import { describe, expect, it } from "vitest";
import type { Request } from "../../core/store.ts";
import { Turns } from "./turns.ts";

function request(id: string, ...keys: string[]): Request {
  return {
    keys,
    id,
    seq: 1,
    mode: "exclusive",
    permits: 1,
    limit: 1,
    ttlMs: 1_000,
    graceMs: 50,
    reservedFences: 10_000,
    keepMs: 0,
    label: "",
    actor: "",
    queue: true,
  };
}

describe("turns", () => {
  it("number requests in the order in which they are first seen, once each", () => {
    const turns = new Turns();
    const [a, b] = [request("a", "k"), request("b", "k")];
    expect([turns.number(a), turns.number(b), turns.number(a)]).toEqual([1, 2, 1]);
  });

  it("say which is the oldest that is still open beside one's own, per key", () => {
    const turns = new Turns();
    const [a, b, c] = [request("a", "k"), request("b", "k", "l"), request("c", "m")];
    for (const one of [a, b, c]) turns.number(one);
    expect(turns.oldestOpen(b)).toEqual([1, 4]);
    expect(turns.end(a)).toBe(1);
    expect(turns.oldestOpen(a)).toEqual([2]);
    expect(turns.end(b)).toBe(2);
    expect(turns.oldestOpen(b)).toEqual([4, 4]);
    expect(turns.size).toBe(1);
  });

  it("do not count as open those that the server has answered, and number them anew", () => {
    const turns = new Turns();
    const [a, b] = [request("a", "k"), request("b", "k")];
    for (const one of [a, b]) turns.number(one);
    expect(turns.oldestOpen(b)).toEqual([1]);
    turns.answered(a);
    turns.answered(a);
    expect(turns.oldestOpen(b)).toEqual([3]);
    expect([turns.number(a), turns.number(a)]).toEqual([3, 3]);
    expect(turns.oldestOpen(b)).toEqual([3]);
    expect(turns.end(a)).toBe(3);
    expect(turns.oldestOpen(request("c", "k"))).toEqual([2]);
    expect(turns.size).toBe(1);
  });

  it("remember who has ended, also before it was ever seen (P8)", () => {
    const turns = new Turns();
    const early = request("early", "k");
    turns.end(early);
    expect(turns.number(early)).toBe(null);
    expect(turns.size).toBe(0);
  });

  it("forget a request that was refused for good, and keep nothing of it", () => {
    const turns = new Turns();
    const refused = request("refused", "k");
    turns.number(refused);
    turns.close(refused);
    expect(turns.size).toBe(0);
    expect(turns.number(refused)).toBe(2);
  });

  it("do not grow with what has ended", () => {
    const turns = new Turns();
    for (let i = 0; i < 20_000; i += 1) {
      const one = request(`id${i}`, "k");
      turns.number(one);
      turns.end(one);
    }
    expect(turns.size).toBe(0);
    expect(turns.number(request("id19999", "k"))).toBe(null);
  });

  it("know whether anything of a request was sent, and keep back what has ended (P20)", () => {
    const turns = new Turns();
    const [a, b] = [request("a", "k"), request("b", "k")];
    turns.number(a);
    turns.number(b);
    expect(turns.sent(a)).toBe(true);
    expect([turns.isUnsent(a), turns.isUnsent(b)]).toEqual([false, true]);
    turns.answered(a);
    turns.number(a);
    expect(turns.isUnsent(a)).toBe(false);
    turns.end(b);
    expect(turns.sent(b)).toBe(false);
  });
});
