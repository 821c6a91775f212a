// The injection token of the `Locks`, the same in every copy of the package.

/**
 * Injects the `Locks` of the application.
 *
 * @example
 * class Orders {
 *   constructor(@Inject(LOCKS) private readonly locks: Locks) {}
 * }
 */
export const LOCKS: unique symbol = Symbol.for("holdfast.locks");
