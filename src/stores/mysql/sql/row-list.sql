-- Keys that are held, in order, after a name. namespace, name, length of prefix, prefix.
SELECT DISTINCT hash, name FROM holdfast_row_holder
WHERE namespace = ? AND name > ? AND SUBSTRING(name, 1, ?) = ?
  AND session IS NOT NULL AND IS_USED_LOCK(CONCAT('holdfast:', session)) IS NOT NULL
ORDER BY name LIMIT 100
