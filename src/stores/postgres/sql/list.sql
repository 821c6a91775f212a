-- Keys in use that begin with a prefix, a page at a time, with what {describe} says of them. Damaged rows are
-- left out.
-- $1 namespace, $2 prefix, $3 the key after which to go on, or null
SELECT encode(t.key, 'hex') AS key, {describe}(t, clock_timestamp())::text AS info FROM {lock} AS t
WHERE t.namespace = $1 AND (t.in_use > 0 OR t.waiting > 0) AND substring(t.key
  FOR octet_length($2::bytea)) = $2::bytea
  AND ($3::bytea IS NULL OR t.key > $3::bytea) AND NOT {is_damaged}(t)
ORDER BY t.key LIMIT 200
