-- Takes a key away from its holders.
SELECT {revoke}($1, $2, $3, $4) AS answer
