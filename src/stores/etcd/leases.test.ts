// Which leases one opened store remembers, in virtual time.

import { describe, expect, it } from "vitest";
import { VirtualSystem } from "../../testing/virtual-system.ts";
import { Leases } from "./leases.ts";
import type { EtcdClient } from "./cluster/cluster.ts";

const io = { signal: new AbortController().signal };

function opened(): { leases: Leases; system: VirtualSystem; revoked: number[] } {
  const system = new VirtualSystem();
  const revoked: number[] = [];
  const client: Pick<EtcdClient, "grantLease" | "keepAlive" | "revokeLease"> = {
    grantLease: (_id, seconds) => Promise.resolve(seconds),
    keepAlive: () => Promise.resolve(10),
    revokeLease: (id) => {
      revoked.push(id);
      return Promise.resolve();
    },
  };
  return { leases: new Leases(client as EtcdClient, system), system, revoked };
}

describe("the leases of a store", () => {
  it("are forgotten once they have ended, whatever their length", async () => {
    const { leases, system } = opened();
    const ended: number[] = [];
    for (let seconds = 1; seconds <= 50; seconds += 1) {
      ended.push((await leases.get(seconds, io)).id);
      await system.advance(60_000);
    }
    const last = await leases.get(99, io);
    expect(ended.filter((id) => leases.byId(id) !== null)).toEqual([]);
    expect(leases.byId(last.id)).toBe(last);
  });

  it("are known again when the server has kept one alive after all, and end with the store", async () => {
    const { leases, system, revoked } = opened();
    const late = await leases.get(5, io);
    await system.advance(6_000);
    const other = await leases.get(7, io);
    expect(leases.byId(late.id)).toBeNull();
    await leases.keepAlive(late, system.now(), io);
    expect(leases.byId(late.id)).toBe(late);
    await leases.revokeAll(io);
    expect(new Set(revoked)).toEqual(new Set([late.id, other.id]));
  });

  it("are believed in for their time less a grace in proportion to it", async () => {
    const { leases, system } = opened();
    const [whole, short] = [await leases.get(34, io), await leases.get(2, io)];
    expect(leases.validMs(whole, system.now(), 30_000, 3_000)).toBe(30_000);
    expect(leases.validMs(short, system.now(), 30_000, 3_000)).toBe(1_800);
    expect(leases.validMs(short, system.now(), 1_000, 100)).toBe(1_000);
    await system.advance(1_500);
    expect(leases.validMs(short, system.now(), 30_000, 3_000)).toBe(300);
    expect(leases.validMs(short, system.now(), 1_000, 100)).toBe(400);
  });

  it("that nobody shares are not taken for shared ones when they are renewed", async () => {
    const { leases, system, revoked } = opened();
    const alone = await leases.grant(5, io);
    await leases.keepAlive(alone, system.now(), io);
    await leases.revokeAll(io);
    expect(leases.byId(alone.id)).toBeNull();
    expect(revoked).toEqual([]);
  });
});
