-- Locks a key in the transaction of the caller.
SELECT {transaction}($1) AS answer
