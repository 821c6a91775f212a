// Which of several members to use: one after the other is asked, the next one as soon as the one before it has failed or has
// taken a moment. The first good answer counts. A frozen member costs that moment, not a whole call.

import type { System } from "../../core/system.ts";

/** How long one may take before the next is asked as well. */
const STAGGER_MS = 100;

export function firstOf<T>(
  candidates: readonly T[],
  ask: (candidate: T) => Promise<T>,
  system: System,
  signal: AbortSignal,
  failed: (failures: readonly unknown[]) => Error,
): Promise<T> {
  const failures: unknown[] = [];
  return new Promise((resolve, reject) => {
    const begin = async (at: number): Promise<void> => {
      const candidate = candidates[at];
      if (candidate === undefined || signal.aborted) return;
      let begun = false;
      const beginNext = (): void => {
        if (!begun) void begin(at + 1);
        begun = true;
      };
      const cancel = system.after(STAGGER_MS, beginNext);
      try {
        resolve(await ask(candidate));
      } catch (error) {
        failures.push(error);
        if (failures.length === candidates.length) reject(failed(failures));
        beginNext();
      } finally {
        cancel();
      }
    };
    signal.addEventListener("abort", () => reject(failed(failures)), { once: true });
    void begin(0);
  });
}
