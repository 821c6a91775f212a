-- What every script begins with: its head, and this node's time. A record is one string, which begins with
-- its form. FREE: the counter. HELD: a holder, and nobody waits; its columns are in rules.lua. QUEUED:
-- anything else, packed. OLD_SHORT and OLD_FULL were written by version 0.1.
-- ARGV: 1 prefix of the channels, 2 the opened store that asks (16 characters), 3 how long a free key is
--       reserved for the next waiter, in ms

local FREE, HELD, QUEUED, OLD_SHORT, OLD_FULL = 'hq2c', 'hq2h', 'hq2q', 'hq1b', 'hq1f'
local REMEMBER_MS = 60000

local channels, self, claimMs = ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local wallUs = time[1] * 1000000 + time[2]
local now = math.floor(wallUs / 1000)
local sub = string.sub
local BLANKS = '                  '
