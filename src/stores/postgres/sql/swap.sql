-- Changes rows that nobody has changed since they were read: all of them or none. Whoever left the line loses its heartbeat, and
-- what is to be told leaves with the commit.
-- $1 names, $2 versions, $3 states as a JSON array; $4 names and $5 ids of those who left; $6 channels and $7 words to tell
-- Returns how many rows were changed.
WITH {clock},
  want AS MATERIALIZED (SELECT w.name, w.version, s.* FROM unnest($1::bytea[], $2::bigint[]) WITH ORDINALITY AS w (name, version, place)
    JOIN jsonb_to_recordset($3::jsonb) AS s (place bigint, holder text, proc text, label text, host text, process text, actor text,
      fence bigint, room bigint, used bigint, since_us bigint, ends_us bigint, over_us bigint, last bigint, marks jsonb, record text)
    ON s.place = w.place),
  mine AS MATERIALIZED (SELECT t.name FROM c CROSS JOIN {locks} AS t JOIN want AS w ON t.name = w.name AND t.version = w.version
    ORDER BY t.name FOR UPDATE OF t),
  done AS (UPDATE {locks} AS t SET version = t.version + 1, holder = w.holder, proc = w.proc, label = w.label, host = w.host,
      process = w.process, actor = w.actor, fence = w.fence, room = w.room, used = w.used,
      since_at = timestamptz 'epoch' + w.since_us * interval '1 microsecond',
      ends_at = timestamptz 'epoch' + w.ends_us * interval '1 microsecond',
      over_at = timestamptz 'epoch' + w.over_us * interval '1 microsecond',
      last = w.last, marks = w.marks, record = w.record
    FROM want AS w WHERE t.name = w.name AND t.version = w.version AND (SELECT count(*) FROM mine) = cardinality($1::bytea[])
    RETURNING t.name),
  gone AS (DELETE FROM {beats} AS b USING unnest($4::bytea[], $5::text[]) AS g (name, id)
    WHERE b.name = g.name AND b.id = g.id AND EXISTS (SELECT FROM done))
SELECT (SELECT count(*) FROM done)::text AS done,
  (SELECT count(pg_notify(p.channel, p.words)) FROM unnest($6::text[], $7::text[]) AS p (channel, words) WHERE EXISTS (SELECT FROM done))
