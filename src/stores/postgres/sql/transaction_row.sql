-- Makes the row of a key beside the transaction of the caller.
SELECT {make_row}($1, $2, $3)::text AS answer
