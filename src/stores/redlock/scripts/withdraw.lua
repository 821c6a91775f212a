-- Takes a proposal back that came to nothing: none of its numbers was used. The request lives on and may wait in line. A newer
-- proposal of the same request stays.
-- KEYS: 1 the record
-- ARGV: 1-3 see clock; 4 id, 5 turn, 6 fence, 7 label, 8 "1" for a place in line, 9 birth of the request
-- Returns 1 if the proposal held the key, else 0
--@include clock
--@include rules

local id, fence = ARGV[4], tonumber(ARGV[6])
local it = sweep(read(KEYS[1]))
local row = it.row
if not row or row.id ~= id or row.fence > fence then return 0 end
row.keepUntil = 0
let(it, row.fence)
if ARGV[8] == '1' and not hasEnded(it, id, tonumber(ARGV[5])) then seat(it, id, tonumber(ARGV[9]), ARGV[7]) end
settle(it)
save(it)
tell()
return 1
