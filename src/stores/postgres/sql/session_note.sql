-- Writes down what a holder waits for.
-- $1 id, $2 key or null
UPDATE {sessions} SET waiting_for = $2 WHERE id = $1
