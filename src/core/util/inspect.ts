// Makes `console.log` print the JSON of a lease. Its fields contain the request id, which is enough to
// release the lock.

/** Makes Node print the result of `toJSON` for the instances of a class. */
export function printedAsJson(of: { readonly prototype: { toJSON(): object } }): void {
  const value = function (this: { toJSON(): object }): object {
    return this.toJSON();
  };
  Object.defineProperty(of.prototype, Symbol.for("nodejs.util.inspect.custom"), { value });
}
