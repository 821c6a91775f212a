-- Writes what a holder waits for into the key that it holds, or clears it.
-- KEYS: 1 the record
-- ARGV: 1-3 see clock; 4 id, 5 the key that it waits for, or ""
-- Returns 1 if it holds the key, else 0
--@include clock
--@include rules

local it = read(KEYS[1])
if not it.row or it.row.id ~= ARGV[4] then return 0 end
it.row.waitingFor = ARGV[5] ~= '' and ARGV[5] or nil
save(it)
return 1
