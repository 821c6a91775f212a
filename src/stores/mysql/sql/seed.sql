-- Makes the empty row of a key that has none, with the floor for its fences. name, namespace, lock_key.
INSERT IGNORE INTO holdfast_lock (name, namespace, lock_key, version, over_us, last, marks)
VALUES (?, ?, ?, 1, {now}, {floor}, '{}')
