-- The next fence of a key that is there, for a reader. hash. Gives the fence as insertId.
UPDATE holdfast_row_holder SET last = LAST_INSERT_ID(GREATEST(last + 1, {now})) WHERE hash = ? AND slot = ''
