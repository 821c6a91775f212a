-- Deletes rows that have been over for ten minutes and whose fences the floor covers, some at a time. the floor.
DELETE FROM holdfast_lock WHERE over_us < {now} - 600000000 AND last <= ? LIMIT 500
