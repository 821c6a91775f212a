-- The record of a key on one node and the rules by which it changes. `c` is the largest number that belongs to a proposal which
-- was accepted: its fence and all of its room. It never falls below a fence that somebody can have used.
-- A row is the one holder; the line are those who wait, the oldest request first; a free key is kept for a moment for the
-- first of them, so that a release does not end in a race. Only `c` and the row carry safety; the line carries none.
-- Follows clock.lua

local FRESH_MS = 700
local FORGOTTEN_MS = 2000

local wakes = {}

local function whole(number)
  return string.format('%.0f', number)
end

local function read(name)
  local text = redis.call('GET', name)
  local form = text and string.sub(text, 1, 4)
  local it
  if form == SHORT then
    local c, marks, gone, id, proc, fence, room, used, since, ends, label, actor = cmsgpack.unpack(string.sub(text, 5))
    it = { c = c, marks = marks, gone = gone }
    if id then
      it.row = {
        id = id, proc = proc, fence = fence, room = room, used = used, since = since, ends = ends, label = label,
        actor = actor, keepUntil = 0,
      }
    end
  elseif form == FULL then it = cmsgpack.unpack(string.sub(text, 5))
  elseif form then error('HOLDFAST-FOREIGN')
  else it = { c = 0 } end
  it.name, it.stored = name, text and true
  it.line, it.marks, it.gone = it.line or {}, it.marks or {}, it.gone or {}
  return it
end

-- A counter has no time to live, because the clock of this node may jump: sweep.lua deletes it when it is
-- old. An existing record is given one before it is written: Redis then lets the script finish also when
-- memory is full.
local function save(it)
  local row = it.row
  local body
  if #it.line > 0 or it.promised or (row and (row.keepUntil > 0 or row.waitingFor or row.revoked)) then
    body = FULL .. cmsgpack.pack({
      c = it.c, row = row, line = it.line, promised = it.promised, marks = it.marks, gone = it.gone,
    })
  elseif not row then body = SHORT .. cmsgpack.pack(it.c, it.marks, it.gone)
  else
    body = SHORT .. cmsgpack.pack(it.c, it.marks, it.gone, row.id, row.proc, row.fence, row.room, row.used, row.since,
      row.ends, row.label, row.actor)
  end
  if it.stored then redis.call('PEXPIRE', it.name, REMEMBER_MS) end
  if it.c == 0 and not row then redis.call('SET', it.name, body, 'PX', REMEMBER_MS)
  else redis.call('SET', it.name, body) end
end

local function tell()
  for _, wake in ipairs(wakes) do redis.call('PUBLISH', channels .. wake.proc, wake.text) end
  wakes = {}
end

local function place(it, id)
  for at, waiter in ipairs(it.line) do
    if waiter.id == id then return at end
  end
end

local function leaveLine(it, id)
  local at = place(it, id)
  if at then table.remove(it.line, at) end
  if it.promised and it.promised.id == id then it.promised = nil end
end

-- Takes the holder out, or leaves its shadow where the key must stay taken. `used` is the last fence that was used; where nobody
-- can say, the whole room counts: no clock is asked.
local function let(it, used)
  local row = it.row
  if used and it.c == row.fence + row.room then it.c = math.min(it.c, math.max(row.fence, used)) end
  if row.proc ~= '' and row.keepUntil > now then
    row.id, row.proc, row.ends, row.waitingFor = '', '', row.keepUntil, nil
  else it.row = nil end
end

local function sweep(it)
  if it.row and it.row.ends <= now then let(it) end
  if it.promised and it.promised.ends <= now then leaveLine(it, it.promised.id) end
  for at = #it.line, 1, -1 do
    local waiter = it.line[at]
    if now - waiter.seen > FORGOTTEN_MS then table.remove(it.line, at) end
  end
  return it
end

-- A free key is kept for the oldest request that was heard of lately, and its process is told.
local function settle(it)
  if it.row or it.promised then return end
  for _, waiter in ipairs(it.line) do
    if now - waiter.seen <= FRESH_MS then
      it.promised = { id = waiter.id, label = waiter.label, ends = now + claimMs }
      table.insert(wakes, { proc = waiter.proc, text = 'look ' .. waiter.id })
      return
    end
  end
end

-- All nodes order their lines by the same numbers, so that they keep a key for the same one.
local function seat(it, id, birth, label)
  local at = place(it, id)
  if at then
    it.line[at].seen = now
    return
  end
  at = #it.line + 1
  while at > 1 and (it.line[at - 1].birth > birth or (it.line[at - 1].birth == birth and it.line[at - 1].id > id)) do
    at = at - 1
  end
  table.insert(it.line, at, { id = id, proc = self, birth = birth, label = label, since = now, seen = now })
end

-- Whether this id has ended: its turn lies below the mark of its store, or it is named itself.
local function hasEnded(it, id, turn)
  local mark = it.marks[self]
  return (mark and turn < mark[1]) or it.gone[id] ~= nil
end

-- Remembers that this id has ended (P8). `open` is the oldest turn of its store that is still open for this key.
local function markEnded(it, id, turn, open)
  local mark = it.marks[self]
  for proc, entry in pairs(it.marks) do
    if entry[2] < now - REMEMBER_MS then it.marks[proc] = nil end
  end
  for one, since in pairs(it.gone) do
    if since < now - REMEMBER_MS then it.gone[one] = nil end
  end
  it.marks[self] = { math.max(open, mark and mark[1] or 0), now }
  if turn >= open then it.gone[id] = now end
end

-- What people may know of the holder: nine words.
local function describe(row)
  return {
    'held', row.label, whole(row.fence), whole(row.used), tostring(math.max(0, row.ends - now)),
    tostring(math.max(0, now - row.since)), row.waitingFor or '', row.revoked and 'revoked:' .. row.revoked or '',
    row.proc == '' and 'kept' or '',
  }
end
