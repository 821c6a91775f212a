// @verrou/core on a SQL database, with its defaults: it polls every 250 ms. On MariaDB its statements now and then are the victim of a
// deadlock, which it passes on to its caller: here the caller tries again.

export interface OpenVerrou {
  using(key: string, run: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

const TTL_MS = 30_000;

export async function verrouOn(client: "pg" | "mysql2", url: string): Promise<OpenVerrou> {
  const [{ Verrou }, { knexStore }, { default: knex }] = await Promise.all([
    import("@verrou/core"),
    import("@verrou/core/drivers/knex"),
    import("knex"),
  ]);
  const connection = knex({ client, connection: url, pool: { min: 1, max: 10 } });
  const made = new Verrou({ default: "db", stores: { db: { driver: knexStore({ connection }) } } });
  return {
    async using(key, run) {
      const lock = made.createLock(key, TTL_MS);
      await again(() => lock.acquire({ retry: { attempts: Number.POSITIVE_INFINITY } }));
      try {
        await run();
      } finally {
        await again(() => lock.release());
      }
    },
    close: () => connection.destroy(),
  };
}

async function again(call: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await call();
      return;
    } catch (error) {
      if ((error as { code?: unknown }).code !== "ER_LOCK_DEADLOCK") throw error;
    }
  }
}
