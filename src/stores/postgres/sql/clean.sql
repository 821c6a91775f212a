-- Deletes rows that nobody uses.
SELECT {clean}($1::text::interval)::text AS answer
