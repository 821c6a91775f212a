-- Changes a row that the caller's transaction has locked. Not a word of the primary: under the stricter isolation levels that would
-- lock its row for as long as the transaction lasts. As swap, without the server.
UPDATE holdfast_lock SET version = version + 1, holder = ?, proc = ?, label = ?, host = ?, process = ?, actor = ?, fence = ?, room = ?,
  used = ?, since_us = ?, ends_us = ?, over_us = ?, last = ?, marks = ?, record = ?
WHERE name = ? AND version = ?
