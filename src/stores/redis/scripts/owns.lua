-- Whether this id holds all the keys and nobody has revoked it. Changes nothing.
-- KEYS        the record of each key
-- ARGV[1..4]  see head
-- ARGV[5]     id
-- ARGV[6]     "x" if it is a plain lock
-- Returns 1 or 0
--@include head
local clock
--@include record

local id = ARGV[5]
for _, name in ipairs(KEYS) do
  local got = call('HMGET', name, 'v', ARGV[6] == 'x' and 'holder' or 'held:' .. id)
  if not got[1] and call('EXISTS', name) == 1 then error(FOREIGN) end
  local row = got[1] == VERSION and got[2] and readRow(got[2])
  if not row or row.id ~= id or row.state ~= 'h' or row.ends <= wall then return 0 end
end
return 1
