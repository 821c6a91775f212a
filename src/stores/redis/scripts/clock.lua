-- What every script but `quick` begins with: who asks, and when by the server's clock.
-- ARGV: 1 prefix of the channels, 2 the opened store that asks, 3 length of a claim in ms
--@include forms

local channels, self, claimMs = ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local wallUs = time[1] * 1000000 + time[2]
local now = wallUs / 1000
