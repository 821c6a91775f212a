-- As read, and a waiter is seen now in every one of the rows.
-- $1 names, $2 id, $3 seq
WITH {clock},
  beat AS (INSERT INTO {beats} AS b (name, id, seq, seen_at) SELECT n.name, $2, $3::bigint, c.now FROM unnest($1::bytea[]) AS n (name), c
    ON CONFLICT (name, id) DO UPDATE SET seq = greatest(b.seq, excluded.seq), seen_at = greatest(b.seen_at, excluded.seen_at))
SELECT (extract(epoch FROM c.now) * 1000000)::bigint::text AS now_us, encode(t.name, 'hex') AS name, t.version::text, t.holder, t.proc,
  t.label, t.actor, t.fence::text, t.room::text, t.used::text, (extract(epoch FROM t.since_at) * 1000000)::bigint::text AS since_us,
  (extract(epoch FROM t.ends_at) * 1000000)::bigint::text AS ends_us, t.last::text, t.marks::text, t.record,
  CASE WHEN t.record IS NOT NULL THEN (SELECT json_agg(json_build_array(b.id, b.seq, (extract(epoch FROM b.seen_at) * 1000000)::bigint))
    FROM {beats} AS b WHERE b.name = t.name)::text END AS beats
FROM c LEFT JOIN {locks} AS t ON t.name = ANY ($1::bytea[] || ''::bytea)
