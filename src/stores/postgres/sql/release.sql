-- Releases the keys of one request.
SELECT {release}($1, $2, $3, $4, $5, $6)::text AS answer
