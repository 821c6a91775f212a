-- MariaDB: the letters for an opened store, which are taken away by it. proc.
DELETE FROM holdfast_push WHERE proc = ? RETURNING id, words
