-- What every script begins with: its head, and this node's time. A record is one string: a mark of its form, then packed values.
-- ARGV: 1 prefix of the channels, 2 the opened store that asks, 3 how long a free key is kept for who is next, in ms

local SHORT, FULL = 'hq1b', 'hq1f'
local REMEMBER_MS = 60000

local channels, self, claimMs = ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local wallUs = time[1] * 1000000 + time[2]
local now = wallUs / 1000
