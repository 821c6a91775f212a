-- Ends a session and waits until it is gone, and with it whatever it held or waited for.
-- $1 its number, $2 id
SELECT pg_terminate_backend(pid, 1000)::text AS ended FROM pg_stat_activity WHERE pid = $1::integer
  AND application_name = $2
