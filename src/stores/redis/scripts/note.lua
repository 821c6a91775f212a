-- Writes what a holder waits for into the keys that it holds, or clears it.
-- KEYS        the record of each key
-- ARGV[1..4]  see head
-- ARGV[5]     id
-- ARGV[6]     "x" if it is a plain lock
-- ARGV[7]     the note, or ""
-- Returns nothing
--@include head
local clock
--@include record

local id, note = ARGV[5], ARGV[7]
for _, name in ipairs(KEYS) do
  local field = ARGV[6] == 'x' and 'holder' or 'held:' .. id
  local got = call('HMGET', name, 'v', field)
  local row = got[1] == VERSION and got[2] and readRow(got[2])
  if row and row.id == id and row.state ~= 'k' and row.state ~= 'r' then
    row.noted = note == '' and '-' or 'n'
    extend({ name = name }, 1)
    call('HSET', name, field, rowText(row))
    if note == '' then call('HDEL', name, 'note:' .. id) else call('HSET', name, 'note:' .. id, note) end
  end
end
return false
