-- Lets go of one exclusive lock that nobody waits for, and remembers which requests of that store have ended.
-- $1 name, $2 id, $3 proc, $4 oldest open turn, $5 last fence that was used
-- Returns a row if this id held it and the row was in short form.
WITH {clock}
UPDATE {locks} AS t SET version = version + 1, holder = NULL, label = NULL, host = NULL, process = NULL, actor = NULL, proc = NULL,
  since_at = NULL, ends_at = NULL, over_at = c.now,
  last = CASE WHEN last = fence + room THEN least(last, greatest(fence, used, $5::bigint)) ELSE last END,
  marks = marks || jsonb_build_object($3::text, jsonb_build_array(
    greatest($4::bigint, (marks -> $3 ->> 0)::bigint), extract(epoch FROM c.now) * 1000))
FROM c
WHERE name = $1 AND holder = $2 AND record IS NULL AND ends_at > c.now AND pg_column_size(marks) < 1000
RETURNING 1
