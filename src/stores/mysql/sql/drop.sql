-- Lets go of one exclusive lock that nobody waits for, and remembers which requests of that store have ended.
-- last fence that was used, path, oldest open turn, path of its number, name, id, server
UPDATE holdfast_lock SET version = version + 1, last = IF(last = fence + room, LEAST(last, GREATEST(fence, used, ?)), last),
  holder = NULL, label = NULL, host = NULL, process = NULL, actor = NULL, proc = NULL, since_us = NULL,
  marks = JSON_SET(marks, ?, JSON_ARRAY(GREATEST(?, COALESCE(CAST(JSON_EXTRACT(marks, ?) AS SIGNED), 0)), {now} DIV 1000)),
  ends_us = NULL
WHERE name = ? AND holder = ? AND record IS NULL AND ends_us > {now} AND LENGTH(marks) < 1000
  AND {primary}
