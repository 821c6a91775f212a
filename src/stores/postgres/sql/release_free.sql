-- As the first statement of {release_one}, for sessions of our own (own_session.sql). No row: {release_one}
-- decides.
UPDATE {lock} AS t SET in_use = 0, id = NULL, changed_at = now(),
  last_fence = CASE WHEN t.last_fence = t.fence + t.room
    THEN least(t.last_fence, greatest(t.fence_used, $3::bigint)) ELSE t.last_fence END
WHERE t.name = $1 AND t.id = $2 AND t.in_use = 1 AND t.mode = 'x' AND t.waiting = 0 AND t.ends_at > now()
  AND (t.keep_until IS NULL OR t.keep_until <= now())
  AND t.fence_used BETWEEN t.fence AND t.fence + t.room AND t.last_fence <= 9007199254740991
RETURNING 'true' AS answer
