-- The exclusive holder is gone; the numbers that it did not use return to the key. room, used, hash, session,
-- fence.
UPDATE holdfast_row_holder
SET last = IF(last = fence + ?, LEAST(last, GREATEST(fence, used, ?)), last),
  session = NULL, proc = NULL, process = NULL, actor = NULL, label = NULL, since = NULL, waiting_for = NULL, revoked = NULL
WHERE hash = ? AND slot = '' AND session = ? AND fence = ?
