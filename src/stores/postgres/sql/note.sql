-- Writes down what a holder waits for.
SELECT {note}($1, $2, $3)::text AS answer
