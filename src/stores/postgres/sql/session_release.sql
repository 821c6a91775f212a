-- Lets go of a session lock: first the fence that was used last is written down, then the lock is free.
-- $1 name, $2 lock, $3 id, $4 mode, $5 last fence that was used, or null where nobody can say
-- Returns whether the lock was held.
WITH w AS (DELETE FROM {sessions} WHERE id = $3 AND pid = pg_backend_pid() RETURNING fence, room, used),
  f AS (UPDATE {fences} AS t SET last = least(t.last, greatest(w.fence, w.used, $5::bigint)) FROM w
    WHERE t.name = $1 AND $5::bigint IS NOT NULL AND t.last = w.fence + w.room RETURNING 1),
  n AS MATERIALIZED (SELECT count(*) AS n FROM f)
SELECT (CASE $4::text WHEN 'shared' THEN pg_advisory_unlock_shared($2::bigint)
  ELSE pg_advisory_unlock($2::bigint) END)::text AS held,
  set_config('idle_session_timeout', '0', false) FROM n
