-- One step through all records of this node: deletes those that nobody holds or waits for and whose counter
-- is more than an hour old. The floor of the node rises to the largest counter that was deleted, so it
-- accepts no smaller fence whatever its clock says.
-- KEYS: 1 the marker
-- ARGV: 1-3 see clock; 4 cursor, 5 pattern
-- Returns the next cursor, "0" after the last
--@include clock
--@include voter
if not floor then return '0' end
--@include rules

local HOUR_MS = 3600000
-- The counter of a record that may go, or nil.
local function oldCounter(name)
  local good, it = pcall(read, name)
  if not good or it.c / 1000 >= now - HOUR_MS or (it.row and it.row.ends >= now - REMEMBER_MS) then return end
  for _, waiter in ipairs(it.queue) do
    if now - waiter.untilMs < REMEMBER_MS then return end
  end
  return it.c
end

local page = redis.call('SCAN', ARGV[4], 'MATCH', ARGV[5], 'COUNT', 200)
local dead, most = {}, floor
for _, name in ipairs(page[2]) do
  local c = oldCounter(name)
  if c then
    table.insert(dead, name)
    most = math.max(most, c)
  end
end
if most > floor then
  -- Given a time to live first, which the next write takes away: Redis then lets the script finish also when
  -- memory is full.
  redis.call('PEXPIRE', KEYS[1], REMEMBER_MS)
  redis.call('SET', KEYS[1], string.match(marker, '^(.+ )%d+$') .. string.format('%.0f', most))
end
-- A time to live of nothing deletes, and needs no more rights than the other scripts do.
for _, name in ipairs(dead) do redis.call('PEXPIRE', name, 0) end
return page[1]
