-- Renews leases in short form, never to an earlier end. A row that somebody else has locked is skipped, so
-- that it does not keep the others waiting.
-- $1 names, $2 ids, $3 ttl + grace in us, $4 fences in use, $5 labels; arrays of equal length
-- Returns the place in the arrays of each in short form, and whether it was renewed or is locked.
WITH {clock},
  want AS (SELECT * FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[], $5::text[])
    WITH ORDINALITY AS w (name, id, lasts, used, label, place)),
  mine AS MATERIALIZED (SELECT t.name, w.lasts, w.used, w.label, w.place FROM {locks} AS t, want AS w, c
    WHERE t.name = w.name AND t.holder = w.id AND t.record IS NULL AND t.ends_at > c.now
    FOR UPDATE OF t SKIP LOCKED),
  done AS (UPDATE {locks} AS t SET version = t.version + 1, used = mine.used, label = mine.label,
  ends_at = greatest(t.ends_at, c.now + mine.lasts * interval '1 microsecond'),
  over_at = greatest(t.ends_at, c.now + mine.lasts * interval '1 microsecond')
  FROM mine, c WHERE t.name = mine.name
  RETURNING mine.place)
SELECT w.place::text, CASE WHEN done.place IS NULL THEN 'locked' ELSE 'renewed' END AS state
FROM {locks} AS t JOIN want AS w ON t.name = w.name AND t.holder = w.id AND t.record IS NULL
LEFT JOIN done ON done.place = w.place
