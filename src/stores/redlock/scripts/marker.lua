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

local marker = redis.call('GET', KEYS[1])
local run, sign, floor

-- Learns which server this is, and thereby whether it votes. INFO takes as long as the rest of a vote.
local function identify()
  local info = redis.call('INFO', 'server')
  local runAt = string.find(info, 'run_id:', 1, true)
  run = sub(info, runAt + 7, runAt + 46)
  sign = marker and sub(marker, 1, 40) == run and sub(marker, 41, 41)
  floor = sign == '+' and tonumber(string.match(marker, '^%d+ %d+ %a%d+ %d+ (%d+)$', 43)) or nil
end

-- This node's time in seconds and microseconds, and its five words if it has a marker: a clock that jumped
-- shows, and whether a client has seen the jump before.
local function clockText()
  return time[1] .. ' ' .. time[2] .. ' ' .. (marker and sub(marker, 43) or '')
end
