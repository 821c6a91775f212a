-- No fence below this may be given out, whatever became of its record. Locked, so that whoever clears records is waited for.
-- A fragment: {floor} in other files stands for it.
COALESCE((SELECT floor FROM holdfast_floor WHERE id = 1 LOCK IN SHARE MODE), 0)
