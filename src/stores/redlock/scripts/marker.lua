-- Whether this node may vote. The marker is a text without expiry:
-- 1. the run id of the server that it was written for;
-- 2. "+" where the node is admitted, "~" where it is in quarantine;
-- 3. "d" where every write of that server was on disk before it was acknowledged, else "n";
-- 4. five words divided by blanks: the longest ttl in ms; when a client last swept the records, in ms; the
--    last quarantine, as "r" (restarted or emptied) or "c" (its clock jumped) and the time at which it began;
--    for how many ms clients have watched that quarantine; the floor of all fences. No wall clock counts for
--    the length of a quarantine: the times are only names and schedules.
-- KEYS: 1 the marker
-- Follows clock.lua

local info = redis.call('INFO', 'server')
local runAt = string.find(info, 'run_id:', 1, true)
local run = string.sub(info, runAt + 7, runAt + 46)
local marker = redis.call('GET', KEYS[1])
local sign = marker and string.sub(marker, 1, 40) == run and string.sub(marker, 41, 41)
local lastQuarantine, lastFloor
if marker then lastQuarantine, lastFloor = string.match(marker, '^%d+ %d+ (%a%d+) %d+ (%d+)$', 43) end
local floor = sign == '+' and tonumber(lastFloor) or nil

local function markerText(mark, durable, mostMs, sweptMs, quarantine, watchedMs, least)
  local words = string.format('%.0f %.0f %s %.0f %.0f', mostMs, sweptMs, quarantine, watchedMs, least)
  return run .. mark .. durable .. words
end

-- The longest ttl with its grace, and a fifth more because the clocks of clients run at different rates.
local function quarantineMs(mostMs)
  return 1.2 * (mostMs + math.max(50, mostMs / 10))
end

-- This node's time in seconds and microseconds, and its last quarantine. Clients compare its clock with
-- theirs.
local function clockText()
  return time[1] .. ' ' .. time[2] .. ' ' .. (lastQuarantine or 'r0')
end

-- Why not: {"out", "strange" | "waiting" | "ready", "r" | "c" | "", ms that clients have to watch it yet}
local function out()
  local mostMs, cause, watchedMs
  if sign == '~' then mostMs, cause, watchedMs = string.match(marker, '^(%d+) %d+ (%a)%d+ (%d+) %d+$', 43) end
  if not mostMs then return { 'out', 'strange', '', 0 } end
  local leftMs = math.max(0, math.ceil(quarantineMs(tonumber(mostMs)) - watchedMs))
  return { 'out', leftMs > 0 and 'waiting' or 'ready', cause, leftMs }
end
