-- The one row of the floor.
INSERT IGNORE INTO holdfast_floor (id, floor) VALUES (1, 0)
