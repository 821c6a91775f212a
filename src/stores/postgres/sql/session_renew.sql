-- Renews: the session has been active, so that its idle time begins again, and people see the fence and the
-- label in use.
-- $1 id, $2 fence in use, $3 label, $4 ttl + grace in us, $5 the same as a setting
-- Returns whether it was revoked; no row when this session does not hold it.
WITH s AS MATERIALIZED (SELECT set_config('idle_session_timeout', $5, false) AS timeout)
UPDATE {sessions} SET used = greatest(used, $2::bigint), label = coalesce($3, label), lasts_us = $4::bigint,
  seen_at = clock_timestamp() FROM s
WHERE id = $1 AND pid = pg_backend_pid()
RETURNING revoked
