-- Makes the row of a key that has none.
-- $1 name, $2 namespace, $3 key, $4 state as JSON
-- Returns a row if there was none.
WITH {clock}
INSERT INTO {locks} (name, namespace, key, version, holder, proc, label, host, process, actor, fence, room, used, since_at, ends_at,
  over_at, last, marks, record)
SELECT $1, $2, $3, 1, s.holder, s.proc, s.label, s.host, s.process, s.actor, s.fence, s.room, s.used,
  timestamptz 'epoch' + s.since_us * interval '1 microsecond', timestamptz 'epoch' + s.ends_us * interval '1 microsecond',
  timestamptz 'epoch' + s.over_us * interval '1 microsecond', s.last, s.marks, s.record
FROM c, jsonb_to_record($4::jsonb) AS s (holder text, proc text, label text, host text, process text, actor text, fence bigint, room bigint,
  used bigint, since_us bigint, ends_us bigint, over_us bigint, last bigint, marks jsonb, record text)
ON CONFLICT (name) DO NOTHING
RETURNING 1
