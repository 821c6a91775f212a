-- Ends many requests.
SELECT {abandon}($1, $2, $3, $4, $5, $6) AS answer
