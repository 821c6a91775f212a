-- Tries for a lock that ends with the caller's transaction, and if it is had draws the fence.
-- $1 name, $2 lock, $3 mode
-- Returns whether the lock is held, and the fence.
WITH c AS MATERIALIZED (SELECT clock_timestamp() AS now),
  l AS MATERIALIZED (SELECT CASE $3::text WHEN 'shared' THEN pg_try_advisory_xact_lock_shared($2::bigint)
    ELSE pg_try_advisory_xact_lock($2::bigint) END AS ok),
  f AS (INSERT INTO {fences} AS t (name, lock, last, drawn_at)
    SELECT $1, $2::bigint, greatest((extract(epoch FROM c.now) * 1000000)::bigint, 1 + (SELECT last
      FROM {fences} WHERE name = ''::bytea)), c.now
    FROM c, l WHERE l.ok
    ON CONFLICT (name) DO UPDATE SET last = greatest(t.last + 1, excluded.last), drawn_at = excluded.drawn_at
    RETURNING last AS fence)
SELECT l.ok::text, (SELECT fence FROM f)::text AS fence FROM l
