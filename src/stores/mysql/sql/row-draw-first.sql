-- The record of a key that is new, without a holder. hash, namespace, name.
INSERT IGNORE INTO holdfast_row_holder (hash, slot, namespace, name, last, fence, used)
VALUES (?, '', ?, ?, {floor}, 0, 0)
