-- What one turn of a client's event loop asks of this node, each item for one key: "a" a proposal, "e" the end of an id.
-- A proposal is accepted only if the key is free or its own, and its fence is larger than all that this node has accepted; the
-- fence and its room are recorded in the same step. An end lets go of what the id holds, gives up its place in line, and keeps the
-- key for whoever is next.
-- KEYS: 1 the marker, then the record of each item
-- ARGV: 1-3 see clock; then per item a text in columns that ballot-items.ts writes
-- Returns per item: of a proposal 1 where it was accepted, else {"low" | "far", c, time in us}, nine words of the holder (see
--       rules), {"promised", label}, {"ended"} or why this node may not vote (see marker); of an end 1 if it held the key, else
--       0; of either {"error", text}. Then this node's time and its last quarantine (see marker)
--@include clock
--@include marker

local HOUR_US = 3600000000
local KEEP = 48
local answers, rest = {}, {}
local sub = string.sub

-- A key that nobody holds or waits for, the most frequent case by far: decided before a single rule is set up.
local function takeLone(name, item)
  local shapeAt = 66 + sub(item, 63, 65)
  local fence = tonumber(sub(item, 27, 44))
  if not floor or sub(item, shapeAt + KEEP, shapeAt + KEEP + 1) ~= '0 ' or math.abs(fence - wallUs) > HOUR_US then return end
  local text = redis.pcall('GET', name)
  local c, marks, gone, holder = 0, {}, {}, nil
  if text then
    if type(text) == 'table' or sub(text, 1, 4) ~= SHORT then return end
    c, marks, gone, holder = cmsgpack.unpack(sub(text, 5))
    if holder then return end
  end
  local id, mark = sub(item, 66, shapeAt - 1), marks[self]
  if fence <= c or fence <= floor or (mark and tonumber(sub(item, 3, 14)) < mark[1]) or gone[id] then return end
  local ttlMs = tonumber(sub(item, shapeAt, shapeAt + 23))
  local labelEnd = shapeAt + 99 + sub(item, shapeAt + 96, shapeAt + 99)
  local room = tonumber(sub(item, shapeAt + 72, shapeAt + 95))
  local ends = now + ttlMs + sub(item, shapeAt + 24, shapeAt + 47)
  local top = fence + room
  local body = cmsgpack.pack(top, marks, gone, id, self, fence, room, fence, now, ends, sub(item, shapeAt + 100, labelEnd),
    sub(item, labelEnd + 1))
  if not redis.pcall('SET', name, SHORT .. body).err then return 1 end
end

-- A lone holder of a key that nobody waits for.
local function endLone(name, item)
  local used = tonumber(sub(item, 27, 44))
  local text = used and redis.pcall('GET', name)
  if not text or type(text) == 'table' or sub(text, 1, 4) ~= SHORT then return end
  local c, marks, gone, holder, _, fence, room, _, _, ends = cmsgpack.unpack(sub(text, 5))
  local id, open = sub(item, 45), tonumber(sub(item, 15, 26))
  if holder ~= id or ends <= now then return end
  if c == fence + room then c = math.min(c, math.max(fence, used)) end
  local mark = marks[self]
  for proc, one in pairs(marks) do
    if one[2] < now - REMEMBER_MS then marks[proc] = nil end
  end
  for one, since in pairs(gone) do
    if since < now - REMEMBER_MS then gone[one] = nil end
  end
  marks[self] = { math.max(open, mark and mark[1] or 0), now }
  if tonumber(sub(item, 3, 14)) >= open then gone[id] = now end
  local body = SHORT .. cmsgpack.pack(c, marks, gone)
  -- When memory is full Redis refuses this as a first write, and lets it pass as a second one.
  if redis.pcall('SET', name, body).err then
    redis.call('PEXPIRE', name, REMEMBER_MS)
    redis.call('SET', name, body)
  end
  return 1
end

for at = 2, #KEYS do
  local item = ARGV[at + 2]
  local answer
  if sub(item, 1, 1) == 'a' then answer = takeLone(KEYS[at], item) else answer = endLone(KEYS[at], item) end
  answers[at - 1] = answer or false
  if not answer then table.insert(rest, at) end
end
answers[#KEYS] = clockText()
if #rest == 0 then return answers end
--@include rules

local function propose(name, item)
  if not floor then return out() end
  local shapeAt = 66 + sub(item, 63, 65)
  local labelEnd = shapeAt + 99 + sub(item, shapeAt + 96, shapeAt + 99)
  local id, turn, fence = sub(item, 66, shapeAt - 1), tonumber(sub(item, 3, 14)), tonumber(sub(item, 27, 44))
  local ttlMs, graceMs = tonumber(sub(item, shapeAt, shapeAt + 23)), tonumber(sub(item, shapeAt + 24, shapeAt + 47))
  local keepMs = tonumber(sub(item, shapeAt + KEEP, shapeAt + 71))
  local label = sub(item, shapeAt + 100, labelEnd)
  local room = tonumber(sub(item, shapeAt + 72, shapeAt + 95))
  local it = sweep(read(name))
  if hasEnded(it, id, turn) then return { 'ended' } end

  local function refuse(answer)
    if sub(item, 2, 2) == '1' then seat(it, id, tonumber(sub(item, 45, 62)), label)
    else
      leaveLine(it, id)
      markEnded(it, id, turn, tonumber(sub(item, 15, 26)))
    end
    settle(it)
    save(it)
    tell()
    return answer
  end

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
  if math.abs(fence - wallUs) > HOUR_US then return { 'far', whole(c), whole(wallUs) } end
  if fence <= c then return { 'low', whole(c), whole(wallUs) } end
  leaveLine(it, id)
  it.promised = nil
  it.c = fence + room
  it.row = {
    id = id, proc = self, fence = fence, room = room, used = fence, since = now, ends = now + ttlMs + graceMs,
    label = label, actor = sub(item, labelEnd + 1), keepUntil = keepMs == 0 and 0 or now + keepMs,
  }
  save(it)
  return 1
end

local function finish(name, item)
  local id = sub(item, 45)
  local it = sweep(read(name))
  local held = it.row and it.row.id == id
  if held then let(it, tonumber(sub(item, 27, 44))) end
  leaveLine(it, id)
  markEnded(it, id, tonumber(sub(item, 3, 14)), tonumber(sub(item, 15, 26)))
  settle(it)
  save(it)
  tell()
  return held and 1 or 0
end

-- What is wrong with one key is no affair of the others.
for _, at in ipairs(rest) do
  local item = ARGV[at + 2]
  local good, answer = pcall(sub(item, 1, 1) == 'a' and propose or finish, KEYS[at], item)
  answers[at - 1] = good and answer or { 'error', tostring(type(answer) == 'table' and answer.err or answer) }
end
return answers
