-- A waiter has left. name, id.
DELETE FROM holdfast_beat WHERE name = ? AND id = ?
