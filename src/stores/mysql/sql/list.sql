-- Rows in use whose key begins with a prefix, a page at a time. namespace, the key after which to go on, length of the prefix, prefix.
SELECT {now} AS now_us, t.lock_key, {columns}
FROM holdfast_lock AS t
WHERE t.namespace = ? AND t.lock_key > ? AND SUBSTRING(t.lock_key, 1, ?) = ? AND (t.holder IS NOT NULL OR t.record IS NOT NULL)
ORDER BY t.lock_key LIMIT 200
