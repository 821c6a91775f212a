-- One attempt to get all keys at once, or one heartbeat of a waiter.
-- KEYS: the record of each key
-- ARGV: 1-3 see clock; 4 id, 5 turn, 6 seq, 7 mode, 8 permits, 9 limit, 10 ttl, 11 grace, 12 keep, 13 label,
--       14 actor, 15 "1" for a place in line, 16 numbers behind its fence that it may use; then per key the
--       oldest open turn
-- Returns {"granted", room, fence...}, {"busy", nine words per holder...} or {"ended"}
--@include clock

local id, turn, mode = ARGV[4], tonumber(ARGV[5]), ARGV[7]
local limit, ttlMs, graceMs = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])

--@include rules

local seq, queue = tonumber(ARGV[6]), ARGV[15] == '1'

local function waiterRow()
  local row = {
    id = id, proc = self, seq = seq, seen = now, since = now, mode = mode, permits = tonumber(ARGV[8]),
    limit = limit, ttlMs = ttlMs, graceMs = graceMs, keepMs = tonumber(ARGV[12]), label = ARGV[13], actor = ARGV[14],
    room = tonumber(ARGV[16]),
  }
  if #KEYS > 1 then row.keys = KEYS end
  return row
end

-- Whoever asks and holds gets its full ttl (P8).
local function rearm(rows)
  local answer = { 'granted', whole(rows[1].room) }
  for at, row in ipairs(rows) do
    if row.revoked then return { 'ended' } end
    answer[at + 2] = whole(row.fence)
  end
  for _, row in ipairs(rows) do row.ends = math.max(row.ends, now + ttlMs + graceMs) end
  for at, wake in ipairs(wakes) do
    if wake.id == id then
      table.remove(wakes, at)
      break
    end
  end
  return answer
end

local function abandon(found)
  for _, it in ipairs(found) do
    drop(it.line, id)
    local row = find(it.holders, id)
    if row then let(it, row) end
  end
  for _, it in ipairs(found) do settle(it) end
end

local function seat(it)
  local place = find(it.line, id)
  if place then
    place.seq, place.seen, place.label = math.max(place.seq, seq), now, ARGV[13]
  else
    table.insert(it.line, waiterRow())
  end
end

local function decide(found)
  local rows = rowsOf(found, id)
  if rows then return rearm(rows) end
  for _, it in ipairs(found) do
    if find(it.holders, id) then
      abandon(found)
      return { 'ended' }
    end
  end
  for _, it in ipairs(found) do seat(it) end
  for _, it in ipairs(found) do settle(it) end
  rows = rowsOf(found, id)
  if rows then return rearm(rows) end
  local answer = { 'busy' }
  for at, it in ipairs(found) do
    if not queue then
      drop(it.line, id)
      markEnded(it, id, turn, tonumber(ARGV[16 + at]))
    end
    describe(it, answer)
  end
  return answer
end

for _, name in ipairs(KEYS) do
  if hasEnded(record(name), id, turn) then return { 'ended' } end
end
local answer = decide(all())
saveAll()
tell()
return answer
