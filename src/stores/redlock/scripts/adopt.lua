-- Brings the marker up to date with the server that is running. A server that was started anew may have forgotten locks and
-- fences, and sits out for the longest ttl, unless everything was on disk before it was acknowledged and still is.
-- KEYS: 1 the marker
-- ARGV: 1-3 see clock; 4 longest ttl in ms, 5 "1" where every write is on disk before it is acknowledged, 6 "1" to believe that
--       a node without a marker is new, 7 the run id under which its marker was seen, or "", 8 "1" to accept a server that may evict
-- Returns {run id, "voting" | "waiting" | "ready", ms since the server was started, ms until it may be taken in}, or
--       {run id, "evicting", maxmemory-policy and what follows it} and changes nothing
--@include clock
--@include marker

local memory = redis.call('INFO', 'memory')
local limit, policyAt = string.match(memory, 'maxmemory:(%d+)'), string.find(memory, 'maxmemory_policy:', 1, true)
if ARGV[8] ~= '1' and limit and limit ~= '0' and policyAt and string.sub(memory, policyAt + 17, policyAt + 26) ~= 'noeviction' then
  return { run, 'evicting', string.sub(memory, policyAt + 17, policyAt + 40) }
end

local MARKER_MS = 604800000
local most, durable = tonumber(ARGV[4]), ARGV[5] == '1'
local known = marker and tonumber(string.match(marker, '^(%d+) ', 43))
if known then most = math.max(most, known) end
local same = marker and string.sub(marker, 1, 40) == run
local sign, number
if same then
  sign, number = string.sub(marker, 41, 41), tonumber(string.match(marker, ' (%d+)$', 42))
  -- Who came first may know of shorter leases only, as a command that was not told of the longest ttl.
  if sign == '-' and known and most > known then number = number + most - known end
elseif known and durable and string.sub(marker, 42, 42) == 'd' then
  sign, number = string.sub(marker, 41, 41), tonumber(string.match(marker, ' (%d+)$', 42))
elseif not marker and ARGV[7] == run then
  -- The server has not stopped, and its data is gone: somebody has flushed it just now.
  sign, number = '-', now + most
else
  local upMs = tonumber(string.match(info, 'uptime_in_seconds:(%d+)')) * 1000
  sign, number = '-', (not marker and ARGV[6] == '1') and 0 or now - upMs + most
end
local text = run .. sign .. (durable and 'd' or 'n') .. string.format('%.0f %.0f', most, math.ceil(number))
redis.call('SET', KEYS[1], text, 'PX', MARKER_MS)
marker, floor = text, sign == '+' and number or nil
if floor then return { run, 'voting', 0, 0 } end
local why = out()
return { run, why[2], why[3], why[4] }
