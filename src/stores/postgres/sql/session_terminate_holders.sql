-- Ends the sessions of holders by force and waits until they are gone.
-- $1 ids
SELECT pg_terminate_backend(s.pid, 1000)::text AS ended FROM {sessions} AS s WHERE s.id = ANY ($1::text[])
