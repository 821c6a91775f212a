-- One proposal for one key. It is accepted only if the key is free or mine, and the proposed fence is larger than all that this
-- node has accepted; the fence and its room are recorded in the same step.
-- KEYS: 1 the marker, 2 the record
-- ARGV: 1-3 see clock; 4 id, 5 turn, 6 fence, 7 ttl, 8 grace, 9 keep, 10 label, 11 actor, 12 "1" for a place in line,
--       13 birth of the request, 14 oldest open turn
-- Returns 1 where it was accepted; else {"low" | "far", c, time in us}, nine words of the holder (see rules),
--       {"promised", label}, {"ended"} or why this node may not vote (see marker)
--@include clock
--@include marker
if not floor then return out() end

local HOUR_US = 3600000000
local id, turn, fence, ttlMs, graceMs = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local room = math.floor(ttlMs * 1000)

-- A key that nobody holds or waits for, the most frequent case by far: decided before a single rule is set up.
if ARGV[9] == '0' and math.abs(fence - wallUs) <= HOUR_US then
  local text = redis.call('GET', KEYS[2])
  local short = not text or string.sub(text, 1, 4) == SHORT
  local c, marks, gone, holder = 0, {}, {}, nil
  if text and short then c, marks, gone, holder = cmsgpack.unpack(string.sub(text, 5)) end
  if short and not holder then
    local mark = marks[self]
    if (mark and turn < mark[1]) or gone[id] then return { 'ended' } end
    c = math.max(c, floor)
    if fence <= c then return { 'low', string.format('%.0f', c), string.format('%.0f', wallUs) } end
    local top, ends = fence + room, now + ttlMs + graceMs
    local life = math.ceil(math.max(ends, top / 1000) - now) + KEEP_FENCE_MS
    local body = cmsgpack.pack(top, marks, gone, id, self, fence, room, fence, now, ends, ARGV[10], ARGV[11])
    redis.call('SET', KEYS[2], SHORT .. body, 'PX', string.format('%.0f', life))
    return 1
  end
end
--@include rules

local it = sweep(read(KEYS[2]))
local queue = ARGV[12] == '1'

local function refuse(answer)
  if queue then seat(it, id, tonumber(ARGV[13]), ARGV[10])
  else
    leaveLine(it, id)
    markEnded(it, id, turn, tonumber(ARGV[14]))
  end
  settle(it)
  save(it)
  tell()
  return answer
end

local function accept()
  local keepMs = tonumber(ARGV[9])
  leaveLine(it, id)
  it.promised = nil
  it.c = fence + room
  it.row = {
    id = id, proc = self, fence = fence, room = room, used = fence, since = now, ends = now + ttlMs + graceMs,
    label = ARGV[10], actor = ARGV[11], keepUntil = keepMs == 0 and 0 or now + keepMs,
  }
  save(it)
  return 1
end

local function decide()
  local row = it.row
  local mine = row and row.id == id
  if mine and row.revoked then return { 'ended' } end
  if row and not mine then return refuse(describe(row)) end
  if not row and it.promised and it.promised.id ~= id then return refuse({ 'promised', it.promised.label }) end
  -- The room of a proposal that its own client gives up was never used.
  local c = math.max(floor, mine and it.c == row.fence + row.room and row.fence or it.c)
  if mine and fence == row.fence and fence > floor then
    row.ends = math.max(row.ends, now + ttlMs + graceMs)
    save(it)
    return 1
  end
  local time = whole(wallUs)
  if math.abs(fence - wallUs) > HOUR_US then return { 'far', whole(c), time } end
  if fence <= c then return { 'low', whole(c), time } end
  return accept()
end

if hasEnded(it, id, turn) then return { 'ended' } end
return decide()
