-- The next fence of a key that is there, and its exclusive holder. room, session, proc, process, actor, label, idle_ms, hash. Gives the fence as insertId.
UPDATE holdfast_row_holder
SET fence = LAST_INSERT_ID(GREATEST(last + 1, {now})), last = fence + ?, used = fence,
  session = ?, proc = ?, process = ?, actor = ?, label = ?, idle_ms = ?, since = UTC_TIMESTAMP(6), waiting_for = NULL, revoked = NULL
WHERE hash = ? AND slot = ''
