-- Deletes fences that the floor covers and whose locks nobody has, and what sessions that are gone wrote
-- down. 10,000 at a time.
-- $1 the floor
-- Returns whether there may be more.
WITH l AS MATERIALIZED (SELECT pid, classid::bigint << 32 | objid::bigint AS lock FROM pg_locks
  WHERE locktype = 'advisory' AND objsubid = 1),
  old AS (SELECT name FROM {fences} AS f WHERE drawn_at < clock_timestamp() - interval '10 minutes'
    AND last <= $1::bigint
    AND name <> ''::bytea AND NOT EXISTS (SELECT FROM l
      WHERE l.lock = f.lock) LIMIT 10000 FOR UPDATE SKIP LOCKED),
  gone AS (DELETE FROM {fences} AS t USING old WHERE t.name = old.name),
  written AS (DELETE FROM {sessions} AS s WHERE seen_at < clock_timestamp() - interval '1 minute'
    AND NOT EXISTS (SELECT FROM l WHERE l.pid = s.pid AND l.lock = s.lock))
SELECT (count(*) = 10000)::text AS more FROM old
