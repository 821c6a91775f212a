-- As wait, for a shared lock.
-- $1 lock
SELECT pg_advisory_lock_shared($1::bigint)::text
