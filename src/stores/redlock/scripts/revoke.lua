-- An operator takes a key away from its holder, or from the one with this fence. Its process is notified.
-- KEYS: 1 the record
-- ARGV: 1-3 see clock; 4 reason, 5 fence or "", 6 "1" to free the key at once
-- Returns "revoked", "free" or "other-fence"
--@include clock
--@include rules

local it = removeExpired(read(KEYS[1]))
local row, fence = it.row, tonumber(ARGV[5])
if not row then return 'free' end
if fence and (fence < row.fence or fence > row.fence + row.room) then return 'other-fence' end
row.revoked, row.keepUntil = ARGV[4], 0
if row.proc == '' or ARGV[6] == '1' then it.row = nil end
reserve(it)
save(it)
if row.proc ~= '' then redis.call('PUBLISH', channels .. row.proc, 'revoked ' .. row.id .. ' ' .. ARGV[4]) end
return 'revoked'
