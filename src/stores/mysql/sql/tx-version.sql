-- The version of a row as others see it. name.
SELECT version FROM holdfast_lock WHERE name = ?
