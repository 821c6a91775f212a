// The slices of the peers that the bench uses. They are installed apart, so the tree type-checks without them.

declare module "async-mutex" {
  export class Mutex {
    runExclusive<T>(run: () => Promise<T>): Promise<T>;
  }
}

declare module "proper-lockfile" {
  const lockfile: {
    lock(file: string, options: { retries: object; realpath: boolean }): Promise<() => Promise<void>>;
  };
  export default lockfile;
}
