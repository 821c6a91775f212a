-- The session has waited for its lock and has it: draws the fence and writes down who holds it. The
-- fence is drawn after the lock is held, because its row is reached only through the answer of the lock.
-- $1 name, $2 lock, $3 id, $4 namespace, $5 key, $6 proc, $7 host, $8 process, $9 label, $10 actor, $11 room,
-- $12 mode,
-- $13 ttl + grace in us, $14 the same as a setting
-- Returns whether the lock is held, the fence and the number of the session.
WITH c AS MATERIALIZED (SELECT clock_timestamp() AS now),
  s AS MATERIALIZED (SELECT set_config('idle_session_timeout', $14, false) AS timeout),
  l AS MATERIALIZED (SELECT ($2::bigint IS NOT NULL AND $12::text IS NOT NULL) AS ok FROM s),
  f AS (INSERT INTO {fences} AS t (name, lock, last, drawn_at)
    SELECT $1, $2::bigint, greatest((extract(epoch FROM c.now) * 1000000)::bigint, 1 + (SELECT last
      FROM {fences} WHERE name = ''::bytea))
      + $11::bigint, c.now FROM c, l WHERE l.ok
    ON CONFLICT (name) DO UPDATE SET last = greatest(t.last + 1 + $11::bigint, excluded.last),
      drawn_at = excluded.drawn_at
    RETURNING last - $11::bigint AS fence),
  w AS (INSERT INTO {sessions} AS t (id, pid, lock, namespace, key, proc, host, process, label, actor, mode,
    fence, room, used, since_at,
      seen_at, lasts_us)
    SELECT $3, pg_backend_pid(), $2::bigint, $4, $5, $6, $7, $8, $9, $10, $12::text, f.fence, $11::bigint,
      f.fence, c.now, c.now, $13::bigint
    FROM c, f
    ON CONFLICT (id) DO UPDATE SET pid = excluded.pid, fence = excluded.fence, used = excluded.used,
      since_at = excluded.since_at,
      seen_at = excluded.seen_at, lasts_us = excluded.lasts_us, revoked = NULL, waiting_for = NULL)
SELECT l.ok::text, (SELECT fence FROM f)::text AS fence, pg_backend_pid()::text AS pid FROM l
