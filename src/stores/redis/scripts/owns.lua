-- Whether this id holds all the keys and nobody has revoked it. Changes nothing.
-- KEYS: the record of each key
-- ARGV: 1-3 see clock; 4 id
-- Returns 1 or 0
--@include clock
--@include rules

local rows = rowsOf(all(), ARGV[4])
for _, row in ipairs(rows or {}) do
  if row.revoked then return 0 end
end
return rows and 1 or 0
