-- Who holds a key and who waits for it.
SELECT {inspect}($1)::text AS answer
