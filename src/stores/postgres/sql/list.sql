-- Rows in use whose key begins with a prefix, a page at a time.
-- $1 namespace, $2 prefix, $3 the key after which to go on, or null
WITH c AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT (extract(epoch FROM c.now) * 1000000)::bigint::text AS now_us, encode(t.name, 'hex') AS name, encode(t.key, 'hex') AS key,
  t.version::text, t.holder, t.proc, t.label, t.actor, t.fence::text, t.room::text, t.used::text,
  (extract(epoch FROM t.since_at) * 1000000)::bigint::text AS since_us, (extract(epoch FROM t.ends_at) * 1000000)::bigint::text AS ends_us,
  t.last::text, t.marks::text, t.record,
  CASE WHEN t.record IS NOT NULL THEN (SELECT json_agg(json_build_array(b.id, b.seq, (extract(epoch FROM b.seen_at) * 1000000)::bigint))
    FROM {beats} AS b WHERE b.name = t.name)::text END AS beats
FROM c, {locks} AS t
WHERE t.namespace = $1 AND (t.holder IS NOT NULL OR t.record IS NOT NULL) AND substring(t.key FOR octet_length($2::bytea)) = $2::bytea
  AND ($3::bytea IS NULL OR t.key > $3::bytea)
ORDER BY t.key LIMIT 200
