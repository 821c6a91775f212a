-- Whether this node may vote. The marker is a text: the run id of the server that it was written for, "+" or "-", "d" where
-- every write of that server was on disk before it was acknowledged or "n", the longest ttl, a blank, and a number: after "+"
-- the floor of all fences, after "-" the time in ms from which on the node may be taken in again.
-- KEYS: 1 the marker
-- Follows clock.lua

local info = redis.call('INFO', 'server')
local runAt = string.find(info, 'run_id:', 1, true)
local run = string.sub(info, runAt + 7, runAt + 46)
local marker = redis.call('GET', KEYS[1])
local floor = nil
if marker and string.sub(marker, 1, 41) == run .. '+' then floor = tonumber(string.match(marker, ' (%d+)$', 42)) end

-- Why not: {"out", "strange" | "waiting" | "ready", ms since the server was started, ms until it may be taken in}
local function out()
  local upMs = tonumber(string.match(info, 'uptime_in_seconds:(%d+)')) * 1000
  local from = marker and string.sub(marker, 1, 41) == run .. '-' and tonumber(string.match(marker, ' (%d+)$', 42))
  if not from then return { 'out', 'strange', upMs, 0 } end
  return { 'out', now < from and 'waiting' or 'ready', upMs, math.max(0, math.ceil(from - now)) }
end
