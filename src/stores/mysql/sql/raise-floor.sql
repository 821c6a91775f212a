-- Raises the floor to the largest fence of the rows that have been over for ten minutes. Never lowers it.
UPDATE holdfast_floor SET floor = GREATEST(floor, COALESCE((SELECT MAX(t.last) FROM holdfast_lock AS t WHERE t.over_us < {now} - 600000000), 0))
WHERE id = 1
