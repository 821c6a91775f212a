-- Everybody who holds a lock whose key begins with a prefix.
-- $1 namespace, $2 prefix
WITH l AS MATERIALIZED (SELECT pid, classid::bigint << 32 | objid::bigint AS lock FROM pg_locks
  WHERE locktype = 'advisory' AND objsubid = 1
    AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
SELECT encode(h.key, 'hex') AS key, h.id, h.pid::text, h.proc, h.label, h.mode, h.fence::text, h.room::text,
  h.used::text, encode(h.waiting_for, 'hex') AS waiting_for, h.revoked,
  (extract(epoch FROM clock_timestamp() - h.since_at) * 1000)::text AS held_ms,
  ((h.lasts_us - extract(epoch FROM clock_timestamp() - h.seen_at) * 1000000) / 1000)::text AS remaining_ms
FROM {sessions} AS h JOIN l ON l.pid = h.pid AND l.lock = h.lock
WHERE h.namespace = $1 AND substring(h.key FOR octet_length($2::bytea)) = $2::bytea ORDER BY h.key, h.since_at
