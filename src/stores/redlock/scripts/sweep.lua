-- One step through all records of this node: deletes those that nobody holds or waits for and whose counter
-- is more than an hour old. The floor of the node rises to the largest counter that was deleted, so it
-- accepts no smaller fence whatever its clock says.
-- KEYS: 1 the marker
-- ARGV: 1-3 see clock; 4 cursor, 5 pattern
-- Returns the next cursor, "0" after the last
--@include clock
--@include marker
if not floor then return '0' end

local HOUR_MS = 3600000
local function isDead(text)
  local form = string.sub(text, 1, 4)
  local c, ends, waiting
  if form == SHORT then
    local counter, _, _, id, _, _, _, _, _, endsMs = cmsgpack.unpack(string.sub(text, 5))
    c, ends = counter, id and endsMs
  elseif form == FULL then
    local it = cmsgpack.unpack(string.sub(text, 5))
    c, ends = it.c, it.row and it.row.ends
    for _, waiter in ipairs(it.line) do waiting = waiting or now - waiter.seen < REMEMBER_MS end
  else return false end
  return not waiting and c / 1000 < now - HOUR_MS and (not ends or ends < now - REMEMBER_MS) and c
end

local page = redis.call('SCAN', ARGV[4], 'MATCH', ARGV[5], 'COUNT', 200)
local dead, most = {}, floor
for _, name in ipairs(page[2]) do
  local text = redis.call('TYPE', name).ok == 'string' and redis.call('GET', name)
  local c = text and isDead(text)
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
