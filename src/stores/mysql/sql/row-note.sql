-- What a holder waits for, or NULL. waiting_for, hash, slot, session.
UPDATE holdfast_row_holder SET waiting_for = ? WHERE hash = ? AND slot = ? AND session = ?
