-- Takes away the readers of sessions that have ended.
DELETE FROM holdfast_row_holder
WHERE slot <> '' AND session IS NOT NULL AND IS_USED_LOCK(CONCAT('holdfast:', session)) IS NULL LIMIT 100
