-- Ends an id: what it holds is let go of, its place in line is given up, and the keys pass to whoever is next.
-- KEYS: the record of each key
-- ARGV: 1-3 see clock; 4 id, 5 turn; then per key the last fence that was used, or "" where nobody can say; then per key
--       the oldest open turn
-- Returns 1 if it held all the keys, else 0
--@include clock

local id, turn = ARGV[4], tonumber(ARGV[5])
--@include rules

local found = all()
local held = rowsOf(found, id) and 1 or 0
for at, it in ipairs(found) do
  local row = find(it.holders, id)
  if row then let(it, row, tonumber(ARGV[5 + at])) end
  drop(it.line, id)
  markEnded(it, id, turn, tonumber(ARGV[5 + #KEYS + at]))
end
for _, it in ipairs(found) do settle(it) end
saveAll()
tell()
return held
