-- Whether a request holds its keys.
SELECT {owns}($1, $2)::text AS answer
