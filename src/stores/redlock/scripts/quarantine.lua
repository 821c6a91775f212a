-- Puts an admitted node whose clock jumped into quarantine: it may have ended leases early. Its counters and
-- its floor stay. Nothing happens where the node has been in quarantine since this client last talked to it.
-- KEYS: 1 the marker
-- ARGV: 1-3 see clock; 4 its last quarantine as the client knew it before the jump
-- Returns 1 if it is in quarantine now, else 0
--@include clock
--@include voter

if not floor then return 1 end
local durable, mostMs, sweptMs, last = string.match(marker, '^(%a)(%d+) (%d+) (%a%d+) ', 42)
if last ~= ARGV[4] then return 0 end
local began = string.format('c%.0f', wallUs)
redis.call('SET', KEYS[1], markerText('~', durable, tonumber(mostMs), tonumber(sweptMs), began, 0, floor))
return 1
