-- Takes one exclusive lock that is free and that nobody waits for. A row that is being changed is waited for, and looked at again.
-- $1 name, $2 namespace, $3 key, $4 id, $5 proc, $6 turn, $7 label, $8 host, $9 process, $10 actor, $11 room, $12 ttl + grace in us
-- Returns the fence, or no row when it is not free, is in full form, or this request has ended.
WITH {clock}
INSERT INTO {locks} AS t (name, namespace, key, version, holder, proc, label, host, process, actor, fence, room, used, since_at,
  ends_at, over_at, last, marks)
SELECT $1, $2, $3, 1, $4, $5, $7, $8, $9, $10, f.fence, $11::bigint, f.fence, c.now, e.ends, e.ends, f.fence + $11::bigint, '{}'
FROM c,
  LATERAL (SELECT greatest((extract(epoch FROM c.now) * 1000000)::bigint,
    1 + (SELECT last FROM {locks} WHERE name = ''::bytea)) AS fence) f,
  LATERAL (SELECT c.now + $12::bigint * interval '1 microsecond' AS ends) e
ON CONFLICT (name) DO UPDATE SET version = t.version + 1, holder = excluded.holder, proc = excluded.proc, label = excluded.label,
  host = excluded.host, process = excluded.process, actor = excluded.actor, fence = greatest(t.last + 1, excluded.fence),
  room = excluded.room, used = greatest(t.last + 1, excluded.fence), since_at = excluded.since_at, ends_at = excluded.ends_at,
  over_at = excluded.over_at, last = greatest(t.last + 1, excluded.fence) + excluded.room
WHERE t.holder IS NULL AND t.record IS NULL AND coalesce((t.marks -> $5 ->> 0)::bigint, 0) <= $6::bigint
RETURNING fence::text
