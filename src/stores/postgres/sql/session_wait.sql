-- Waits in the server until the lock is free, and takes it.
-- $1 lock
SELECT pg_advisory_lock($1::bigint)::text
