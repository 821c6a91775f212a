-- Brings the marker up to date with the server that is running. A server that was started anew may have
-- forgotten locks and fences, and is in quarantine until clients have watched it for longer than the longest
-- lease, unless everything was on disk before it was acknowledged and still is. A client adds the time
-- between two of its contacts, by its own monotonic clock, and only if nobody has added anything in between.
-- KEYS: 1 the marker
-- ARGV: 1-3 see clock; 4 longest ttl in ms, 5 "1" where every write is on disk before it is acknowledged, 6
--       "1" to believe that a node without a marker is new, 7 the run id under which its marker was seen, or
--       "", 8 "1" to accept a server that may evict, 9 the quarantine and its watched ms as the client last
--       saw them, or "", 10 the ms since then
-- Returns {run id, "voting" | "waiting" | "ready", "r" | "c" | "", ms that clients have to watch it yet, the
--       quarantine and its watched ms, "1" to sweep the records}, or {run id, "evicting", maxmemory-policy
--       and what follows it} and changes nothing
--@include clock
--@include voter

local memory = redis.call('INFO', 'memory')
local limit, policyAt = string.match(memory, 'maxmemory:(%d+)'), string.find(memory, 'maxmemory_policy:', 1, true)
if ARGV[8] ~= '1' and limit and limit ~= '0' and policyAt and string.sub(memory, policyAt + 17, policyAt + 26) ~= 'noeviction' then
  return { run, 'evicting', string.sub(memory, policyAt + 17, policyAt + 40) }
end

local SWEEP_EVERY_MS = 600000
local WATCHED_ENOUGH_MS = 1e12
local mostMs, durable = tonumber(ARGV[4]), ARGV[5] == '1'
local knownMs = marker and tonumber(string.match(marker, '^(%d+) ', 43))
if knownMs then mostMs = math.max(mostMs, knownMs) end
local sweptMs, quarantine, watchedMs, least
if knownMs then
  sweptMs, quarantine, watchedMs = string.match(marker, '^%d+ (%d+) (%a%d+) (%d+) %d+$', 43)
  least = tonumber(string.match(marker, ' (%d+)$', 43))
end
sweptMs, least = tonumber(sweptMs or 0), least or 0
-- The same server, or another start of it that has lost nothing.
local lostNothing = sign or (durable and marker and string.sub(marker, 42, 42) == 'd')
local mark = knownMs and lostNothing and string.sub(marker, 41, 41)
if mark == '~' and quarantine then
  if ARGV[7] == run and ARGV[9] == quarantine .. ' ' .. watchedMs then watchedMs = watchedMs + ARGV[10] end
elseif mark ~= '+' then
  mark, quarantine = '~', string.format('r%.0f', wallUs)
  watchedMs = (not marker and ARGV[6] == '1' and ARGV[7] ~= run) and WATCHED_ENOUGH_MS or 0
end
local sweeps = mark == '+' and math.abs(now - sweptMs) > SWEEP_EVERY_MS
if sweeps then sweptMs = now end
marker = markerText(mark, durable and 'd' or 'n', mostMs, sweptMs, quarantine or 'r0', watchedMs or 0, least)
sign, floor = mark, mark == '+' and least or nil
redis.call('SET', KEYS[1], marker)
local seen = string.match(marker, '^%d+ %d+ (%a%d+ %d+) %d+$', 43)
if floor then return { run, 'voting', '', 0, seen, sweeps and '1' or '0' } end
local why = out()
return { run, why[2], why[3], why[4], seen, '0' }
