-- Writes what a holder waits for into the keys that it holds, or clears it.
-- KEYS: the record of each key
-- ARGV: 1-3 see clock; 4 id, 5 the key that it waits for, or ""
-- Returns nothing
--@include clock
--@include rules

for _, name in ipairs(KEYS) do
  local row = find(record(name).holders, ARGV[4])
  if row then row.waitingFor = ARGV[5] ~= '' and ARGV[5] or nil else records[name] = nil end
end
saveAll()
return false
