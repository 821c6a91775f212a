-- Whether this id holds the key and nobody has revoked it. Changes nothing.
-- KEYS: 1 the marker, 2 the record
-- ARGV: 1-3 see clock; 4 id
-- Returns 1 or 0; or why this node may not vote (see absence)
--@include clock
--@include voter
if not floor then return out() end
--@include rules

local row = removeExpired(read(KEYS[2])).row
return row and row.id == ARGV[4] and not row.revoked and 1 or 0
