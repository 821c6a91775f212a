-- As wait, for a shared lock.
-- $1 lock, $2 claim in ms
SELECT set_config('idle_session_timeout', $2, false), pg_advisory_lock_shared($1::bigint)::text
