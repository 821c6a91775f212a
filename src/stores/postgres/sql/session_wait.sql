-- Waits in the server until the lock is free, and takes it. The server ends the session of a client that does
-- not answer within its claim.
-- $1 lock, $2 claim in ms
SELECT set_config('idle_session_timeout', $2, false), pg_advisory_lock($1::bigint)::text
