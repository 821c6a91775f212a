-- Rows, the floor and the time, as one statement saw them.
-- $1 names
-- Returns a row per name that is there, the floor among them under the empty name, and at least one.
WITH c AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT (extract(epoch FROM c.now) * 1000000)::bigint::text AS now_us, encode(t.name, 'hex') AS name, t.version::text, t.holder, t.proc,
  t.label, t.actor, t.fence::text, t.room::text, t.used::text, (extract(epoch FROM t.since_at) * 1000000)::bigint::text AS since_us,
  (extract(epoch FROM t.ends_at) * 1000000)::bigint::text AS ends_us, t.last::text, t.marks::text, t.record,
  CASE WHEN t.record IS NOT NULL THEN (SELECT json_agg(json_build_array(b.id, b.seq, (extract(epoch FROM b.seen_at) * 1000000)::bigint))
    FROM {beats} AS b WHERE b.name = t.name)::text END AS beats
FROM c LEFT JOIN {locks} AS t ON t.name = ANY ($1::bytea[] || ''::bytea)
