-- Who holds a lock by the server's own books, what they wrote down, and whether a session waits for it or has
-- it.
-- $1 lock, $2 namespace, $3 key, $4 number of a session or null
-- Returns a row per holder, and at least one.
WITH l AS MATERIALIZED (SELECT pid, granted FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
    AND classid::bigint << 32 | objid::bigint = $1::bigint AND database = (SELECT oid FROM pg_database
      WHERE datname = current_database())),
  h AS (SELECT s.* FROM l JOIN {sessions} AS s ON s.pid = l.pid AND s.lock = $1::bigint
    AND s.namespace = $2 AND s.key = $3 WHERE l.granted)
SELECT (SELECT CASE WHEN bool_or(granted) THEN 'holds' WHEN bool_or(NOT granted) THEN 'waits' END FROM l
  WHERE pid = $4::integer) AS own,
  h.id, h.pid::text, h.proc, h.label, h.mode, h.fence::text, h.room::text, h.used::text, encode(h.waiting_for,
    'hex') AS waiting_for, h.revoked,
  (extract(epoch FROM clock_timestamp() - h.since_at) * 1000)::text AS held_ms,
  ((h.lasts_us - extract(epoch FROM clock_timestamp() - h.seen_at) * 1000000) / 1000)::text AS remaining_ms
FROM (SELECT 1) AS one LEFT JOIN h ON true ORDER BY h.since_at
