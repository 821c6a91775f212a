-- Who holds a key, in the order of their fences, those of sessions that have ended left out. hash.
SELECT slot, fence, used, last, session, proc, label, idle_ms, waiting_for, revoked, {now} - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', since) AS held_us
FROM holdfast_row_holder
WHERE hash = ? AND session IS NOT NULL AND IS_USED_LOCK(CONCAT('holdfast:', session)) IS NOT NULL
ORDER BY fence
