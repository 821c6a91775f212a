-- The first attempt for one exclusive lock. The first six values are those of attempt_free.sql.
SELECT {attempt_one}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS answer
