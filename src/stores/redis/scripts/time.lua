-- The server's clock, in us.
local sub, fmt, call = string.sub, string.format, redis.call
local time = call('TIME')
local wall = time[1] * 1000000 + time[2]
