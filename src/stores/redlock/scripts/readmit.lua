-- Gives a node whose quarantine is over the floor of all fences, as read from the others. The node votes
-- again.
-- KEYS: 1 the marker
-- ARGV: 1-3 see clock; 4 run id that the floor was read for, 5 floor
-- Returns 1 if it votes now, else 0
--@include clock
--@include voter

if floor then return 1 end
if run ~= ARGV[4] or out()[2] ~= 'ready' then return 0 end
local durable, words, least = string.match(marker, '^(%a)(%d+ %d+ %a%d+ %d+) (%d+)$', 42)
local newFloor = string.format('%.0f', math.max(tonumber(least), tonumber(ARGV[5])))
redis.call('SET', KEYS[1], run .. '+' .. durable .. words .. ' ' .. newFloor)
return 1
