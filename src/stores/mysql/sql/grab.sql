-- Takes one exclusive lock that is free and that nobody waits for, if its row is there.
-- id, proc, label, host, process, actor, room, ttl + grace in us, name, path of the mark, turn, server. Gives the fence as insertId.
UPDATE holdfast_lock SET version = version + 1, holder = ?, proc = ?, label = ?, host = ?, process = ?, actor = ?,
  fence = LAST_INSERT_ID(GREATEST(last + 1, {now})), used = fence, room = ?, last = fence + room, since_us = {now}, ends_us = since_us + ?,
  over_us = ((ends_us DIV 600000000) + 1) * 600000000
WHERE name = ? AND holder IS NULL AND record IS NULL
  AND COALESCE(CAST(JSON_EXTRACT(marks, ?) AS SIGNED), 0) <= ?
  AND {granting}
