// How leases look when somebody prints them: as their JSON. The fields behind them hold the request's id, with which anybody could
// release the lock, and `console.log` would show it.

/** Makes Node print what `toJSON` says. */
export function printedAsJson(of: { readonly prototype: { toJSON(): object } }): void {
  const value = function (this: { toJSON(): object }): object {
    return this.toJSON();
  };
  Object.defineProperty(of.prototype, Symbol.for("nodejs.util.inspect.custom"), { value });
}
