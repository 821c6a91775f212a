-- Brings the record of a holder up to date. used, label, hash, slot, session.
UPDATE holdfast_row_holder SET used = GREATEST(used, ?), label = ? WHERE hash = ? AND slot = ? AND session = ?
