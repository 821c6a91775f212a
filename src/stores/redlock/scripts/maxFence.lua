-- One step through all records of this node, for the largest fence that it has accepted. Changes nothing.
-- KEYS: 1 the marker
-- ARGV: 1-3 see clock; 4 cursor, 5 pattern
-- Returns {run id, "voting" | "strange" | "waiting" | "ready", next cursor, largest fence}
--@include clock
--@include voter
--@include rules

local page = redis.call('SCAN', ARGV[4], 'MATCH', ARGV[5], 'COUNT', 500)
local most = floor or 0
for _, name in ipairs(page[2]) do
  local good, it = pcall(read, name)
  if good then most = math.max(most, it.c) end
end
return { run, floor and 'voting' or out()[2], page[1], whole(most) }
