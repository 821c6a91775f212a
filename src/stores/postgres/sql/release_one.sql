-- Releases one key. The first three values are those of release_free.sql.
SELECT {release_one}($1, $2, $3, $4, $5, $6)::text AS answer
