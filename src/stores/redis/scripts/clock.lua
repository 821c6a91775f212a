-- What every script begins with: who asks, and when by the server's clock.
-- ARGV: 1 prefix of the channels, 2 the opened store that asks, 3 length of a claim in ms

local SHORT, FULL = 'hf1b', 'hf1f'
local KEEP_FENCE_MS = 3600000
local REMEMBER_MS = 60000

local channels, self, claimMs = ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local wallUs = time[1] * 1000000 + time[2]
local now = wallUs / 1000
