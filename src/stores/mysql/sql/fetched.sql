-- A letter was read. proc, id.
DELETE FROM holdfast_push WHERE proc = ? AND id = ?
