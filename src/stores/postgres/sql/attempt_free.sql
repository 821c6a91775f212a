-- As the first statement of {attempt_one}, for sessions of our own (own_session.sql). No row: the key is not
-- free, and {attempt_one} decides.
UPDATE {lock} AS t SET in_use = 1, mode = 'x', permit_limit = 1, id = $2, proc = $3, label = $4,
  fence = greatest(t.last_fence + 1, (extract(epoch FROM now()) * 1000000)::bigint), room = $5::integer,
  fence_used = greatest(t.last_fence + 1, (extract(epoch FROM now()) * 1000000)::bigint),
  last_fence = greatest(t.last_fence + 1, (extract(epoch FROM now()) * 1000000)::bigint) + $5::integer,
  since_at = now(), ends_at = now() + $6::bigint * interval '1 microsecond', keep_until = NULL,
  revoked = NULL, waiting_for = NULL, changed_at = now()
WHERE t.name = $1 AND t.in_use = 0 AND t.waiting = 0 AND t.holders = 0
  AND t.last_fence BETWEEN 0 AND 9007199254740991 AND t.ended_until < now()
RETURNING concat('g ', t.room, ' ', t.fence) AS answer
