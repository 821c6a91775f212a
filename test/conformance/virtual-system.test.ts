// The clock that tests move by hand is itself tested: a wrong one would make every other test in virtual time worthless.

import { describe, expect, it } from "vitest";
import { VirtualSystem } from "../../src/testing/index.ts";

describe("virtual time", () => {
  it("stands still until it is moved, and then moves all clocks alike", async () => {
    const system = new VirtualSystem({ monoMs: 5, bootMs: 7, wallMs: 100 });
    await system.settle();
    expect(system.now()).toEqual({ monoMs: 5, bootMs: 7, wallMs: 100 });
    await system.advance(10);
    expect(system.now()).toEqual({ monoMs: 15, bootMs: 17, wallMs: 110 });
  });

  it("rings timers at their own time, in order, with promises settled in between", async () => {
    const system = new VirtualSystem({ monoMs: 0 });
    const rung: string[] = [];
    const ring = (name: string) => (): void => {
      rung.push(`${name} at ${system.monoMs()}`);
      void Promise.resolve().then(() => rung.push(`after ${name}`));
    };
    system.after(20, ring("second"));
    system.after(10, ring("first"));
    system.after(20, ring("third"));
    system.after(10, () => system.after(5, ring("set by a timer")));
    system.after(21, ring("late"));
    const cancel = system.after(1, ring("cancelled"));
    cancel();
    system.after(Number.POSITIVE_INFINITY, ring("never"));
    await system.advance(20);
    expect(rung).toEqual([
      "first at 10",
      "after first",
      "set by a timer at 15",
      "after set by a timer",
      "second at 20",
      "after second",
      "third at 20",
      "after third",
    ]);
    expect(system.pendingTimers()).toBe(1);
  });

  it("can stall, sleep and have its calendar set", async () => {
    const system = new VirtualSystem({ monoMs: 0, bootMs: 0, wallMs: 0 });
    let rungAt = -1;
    system.after(10, () => {
      rungAt = system.monoMs();
    });
    system.stall(30);
    expect([rungAt, system.monoMs()]).toEqual([-1, 30]);
    await system.advance(0);
    expect(rungAt).toBe(30);
    system.suspend(5);
    system.jumpWall(-100);
    expect(system.now()).toEqual({ monoMs: 30, bootMs: 35, wallMs: -65 });
  });

  it("repeats itself from its seed", () => {
    const draw = (seed: number): unknown[] => {
      const system = new VirtualSystem({ seed });
      return [system.randomId(), system.random(), system.randomId()];
    };
    expect(draw(3)).toEqual(draw(3));
    expect(draw(3)).not.toEqual(draw(4));
    expect(draw(3)[0]).toMatch(/^[0-9a-f]{32}$/);
  });

  it("counts background timers only when asked and remembers warnings", () => {
    const system = new VirtualSystem();
    system.after(1, () => {}, "background");
    expect([system.pendingTimers(), system.pendingTimers({ background: true })]).toEqual([0, 1]);
    system.warn("odd", 7);
    expect(system.warnings).toEqual([{ message: "odd", cause: 7 }]);
  });
});
