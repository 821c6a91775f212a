-- Row mode: what is written down beside the locks.

-- Makes the row of a key, if nobody was quicker. Looks first, because an insert would wait for whoever has
-- locked the row.
-- hash, namespace, name, hash.
-- :name row_create
INSERT IGNORE INTO holdfast_row (hash, namespace, name)
SELECT ?, ?, ? FROM (SELECT 1 AS one) AS c WHERE NOT EXISTS (SELECT 1 FROM holdfast_row AS t WHERE t.hash = ?)

-- The record of a key that is new, without a holder. hash, namespace, name.
-- :name row_fence_create
INSERT IGNORE INTO holdfast_row_holder (hash, slot, namespace, name, last, fence, used)
VALUES (?, '', ?, ?, 0, 0, 0)

-- The next fence of a key that is there, for a reader. hash. Gives the fence as insertId.
-- :name row_fence_draw
UPDATE holdfast_row_holder SET last = LAST_INSERT_ID(GREATEST(last + 1, {now})) WHERE hash = ? AND slot = ''

-- The next fence of a key that is there, and its exclusive holder. room, session, proc, process, actor,
-- label, idle_ms, hash. Gives the fence as insertId.
-- :name row_holder_write
UPDATE holdfast_row_holder
SET fence = LAST_INSERT_ID(GREATEST(last + 1, {now})), last = fence + ?, used = fence,
  session = ?, proc = ?, process = ?, actor = ?, label = ?, idle_ms = ?,
  since = UTC_TIMESTAMP(6), waiting_for = NULL, revoked = NULL
WHERE hash = ? AND slot = ''

-- Writes a reader down. hash, slot, namespace, name, fence, fence, session, proc, process, actor, label,
-- idle_ms.
-- :name row_reader_write
INSERT INTO holdfast_row_holder
  (hash, slot, namespace, name, last, fence, used, session, proc, process, actor, label, idle_ms, since)
VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))

-- The exclusive holder is gone; the numbers that it did not use return to the key. room, used, hash, session,
-- fence.
-- :name row_holder_clear
UPDATE holdfast_row_holder
SET last = IF(last = fence + ?, LEAST(last, GREATEST(fence, used, ?)), last),
  session = NULL, proc = NULL, process = NULL, actor = NULL, label = NULL, since = NULL,
  waiting_for = NULL, revoked = NULL
WHERE hash = ? AND slot = '' AND session = ? AND fence = ?

-- A reader is gone. hash, slot.
-- :name row_reader_clear
DELETE FROM holdfast_row_holder WHERE hash = ? AND slot = ?

-- Takes away the readers of sessions that have ended.
-- :name row_reader_clear_dead
DELETE FROM holdfast_row_holder
WHERE slot <> '' AND session IS NOT NULL AND IS_USED_LOCK(CONCAT('holdfast:', session)) IS NULL LIMIT 100

-- Brings the record of a holder up to date. used, label, hash, slot, session.
-- :name row_holder_update
UPDATE holdfast_row_holder SET used = GREATEST(used, ?), label = ? WHERE hash = ? AND slot = ? AND session = ?

-- What a holder waits for, or NULL. waiting_for, hash, slot, session.
-- :name row_holder_note
UPDATE holdfast_row_holder SET waiting_for = ? WHERE hash = ? AND slot = ? AND session = ?

-- An operator's wish, which the holder reads. reason, hash, slot, session.
-- :name row_holder_revoke
UPDATE holdfast_row_holder SET revoked = ? WHERE hash = ? AND slot = ? AND session = ?

-- Which holders of a process were revoked. proc.
-- :name row_revocation_read
SELECT session, revoked FROM holdfast_row_holder WHERE proc = ? AND revoked IS NOT NULL

-- Who holds a key, in the order of their fences, those of sessions that have ended left out. hash.
-- :name row_holder_read
SELECT slot, fence, used, last, session, proc, label, idle_ms, waiting_for, revoked,
  {now} - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', since) AS held_us
FROM holdfast_row_holder
WHERE hash = ? AND session IS NOT NULL AND IS_USED_LOCK(CONCAT('holdfast:', session)) IS NOT NULL
ORDER BY fence

-- Keys that are held, in order, after a name. namespace, name, length of prefix, prefix.
-- :name row_holder_list
SELECT DISTINCT hash, name FROM holdfast_row_holder
WHERE namespace = ? AND name > ? AND SUBSTRING(name, 1, ?) = ?
  AND session IS NOT NULL AND IS_USED_LOCK(CONCAT('holdfast:', session)) IS NOT NULL
ORDER BY name LIMIT 100
