// Whether the store can be reached, in the form of a health indicator of `@nestjs/terminus`.

import type { Locks } from "../core/api.ts";

/** What a health indicator of `@nestjs/terminus` resolves with. */
export type HealthResult<K extends string = string> = Record<
  K,
  { readonly status: "up" | "down"; readonly message?: string; readonly findings?: readonly string[] }
>;

/**
 * The health of the store.
 *
 * @example
 * this.health.check([() => this.holdfast.check("locks")]);
 */
export class HoldfastHealth {
  readonly #locks: Locks;

  constructor(locks: Locks) {
    this.#locks = locks;
  }

  /**
   * Asks the store what `holdfast doctor` asks. "down" if the store cannot be reached or is unsafe. The ids
   * of its findings are shown in both cases.
   */
  async check<K extends string>(name: K): Promise<HealthResult<K>> {
    return { [name]: await this.#look() } as HealthResult<K>;
  }

  async #look(): Promise<HealthResult[string]> {
    try {
      const findings = await this.#locks.check();
      const isUnsafe = findings.some(({ level }) => level === "danger");
      return { status: isUnsafe ? "down" : "up", findings: findings.map(({ id }) => id) };
    } catch (error) {
      return { status: "down", message: error instanceof Error ? error.message : String(error) };
    }
  }
}
