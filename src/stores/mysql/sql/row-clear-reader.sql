-- A reader is gone. hash, slot.
DELETE FROM holdfast_row_holder WHERE hash = ? AND slot = ?
