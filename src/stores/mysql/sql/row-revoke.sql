-- An operator's wish, which the holder reads. reason, hash, slot, session.
UPDATE holdfast_row_holder SET revoked = ? WHERE hash = ? AND slot = ? AND session = ?
