-- The row of a key, locked for the caller's transaction, or an error at once where somebody else is changing it.
-- $1 name
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text AS now_us, (SELECT last FROM {locks} WHERE name = ''::bytea)::text AS floor,
  encode(t.name, 'hex') AS name, t.version::text, t.holder, t.proc, t.label, t.actor, t.fence::text, t.room::text, t.used::text,
  (extract(epoch FROM t.since_at) * 1000000)::bigint::text AS since_us, (extract(epoch FROM t.ends_at) * 1000000)::bigint::text AS ends_us,
  t.last::text, t.marks::text, t.record
FROM {locks} AS t WHERE t.name = $1 FOR UPDATE NOWAIT
