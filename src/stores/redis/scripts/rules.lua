-- The record of a key and the rules by which it changes; they are those of stores/shared/ledger.ts, which says why.
-- Follows clock.lua

local FRESH_SHARE = 0.5
local FORGOTTEN_CLAIMS = 5
local SHORTEST_CLAIM_MS = 200

local records, wakes = {}, {}

local function whole(number)
  return string.format('%.0f', number)
end

local function readMarks(text, at, into)
  local from = at + 2
  for _ = 1, tonumber(string.sub(text, at, at + 1)) do
    into[string.sub(text, from, from + 15)] =
      { tonumber(string.sub(text, from + 16, from + 27)), tonumber(string.sub(text, from + 28, from + 40)) }
    from = from + MARK
  end
  return from
end

local function readFree(text)
  local it = { last = tonumber(string.sub(text, 5, 20)), marks = {} }
  readMarks(text, 21, it.marks)
  return it
end

local function readHeld(text)
  local fence, room = tonumber(string.sub(text, 5, 20)), tonumber(string.sub(text, 21, 32))
  local it = { last = fence + room, marks = {} }
  local at = readMarks(text, 129, it.marks)
  local label = at + 4 + tonumber(string.sub(text, at, at + 3))
  it.holders = { {
    id = string.sub(text, 81, 112), proc = string.sub(text, 113, 128), mode = 'exclusive', permits = 1,
    label = string.sub(text, at + 4, label - 1), actor = string.sub(text, label), fence = fence, room = room,
    used = tonumber(string.sub(text, 33, 48)), since = string.sub(text, 49, 64) / 1000,
    ends = string.sub(text, 65, 80) / 1000, keepUntil = 0,
  } }
  return it
end

local function number(value, least)
  return type(value) == 'number' and value >= least and value < 9007199254740992
end

local TEXTS = { 'id', 'proc', 'label', 'actor' }
local HOLDER = { 'permits', 'since', 'fence', 'room', 'used', 'ends', 'keepUntil' }
local WAITER = { 'permits', 'since', 'seq', 'seen', 'limit', 'ttlMs', 'graceMs', 'keepMs' }
local function rows(list, numbers)
  for at, row in pairs(list) do
    if type(at) ~= 'number' or type(row) ~= 'table' or (row.mode ~= 'exclusive' and row.mode ~= 'shared') then return false end
    for _, name in ipairs(TEXTS) do if type(row[name]) ~= 'string' then return false end end
    for _, name in ipairs(numbers) do if not number(row[name], 0) then return false end end
  end
  return true
end

-- Fills in what may be left out. Whether the rules can work on it: somebody else may have written there. A record that is not whole is never a free key.
local function sound(it)
  if type(it) ~= 'table' then return false end
  it.limit = it.limit or 1
  if not number(it.last, 0) or not number(it.limit, 1) then return false end
  for _, part in ipairs({ 'holders', 'line', 'marks', 'gone' }) do
    it[part] = it[part] or {}
    if type(it[part]) ~= 'table' then return false end
  end
  for _, mark in pairs(it.marks) do if type(mark) ~= 'table' or not (number(mark[1], 0) and number(mark[2], 0)) then return false end end
  for _, ms in pairs(it.gone) do if not number(ms, 0) then return false end end
  return rows(it.holders, HOLDER) and rows(it.line, WAITER)
end

local READERS = {
  [FREE] = readFree, [HELD] = readHeld, [FULL] = function(text) return (cmsgpack.unpack(string.sub(text, 5))) end,
}
local function record(name)
  local it = records[name]
  if it then return it end
  local text = redis.call('GET', name)
  local form = text and string.sub(text, 1, 4)
  local read = true
  if READERS[form] then read, it = pcall(READERS[form], text) elseif not form then it = { last = 0 } end
  if not read or not sound(it) then error('HOLDFAST-FOREIGN') end
  it.name, it.stored = name, text and true
  records[name] = it
  return it
end

-- How long the record outlives this step: until the clock alone keeps its fences growing, and no less than its rows.
local function lifeMs(it)
  if it.last == 0 and #it.holders == 0 and #it.line == 0 then return REMEMBER_MS end
  local untilMs = math.max(now, it.last / 1000)
  for _, row in ipairs(it.holders) do untilMs = math.max(untilMs, row.ends, row.keepUntil) end
  return math.ceil(untilMs - now) + KEEP_FENCE_MS
end

local function packedMarks(it)
  local words = {}
  for proc, mark in pairs(it.marks) do
    table.insert(words, proc .. string.format('%012.0f%013.0f', mark[1], math.floor(mark[2])))
  end
  return string.format('%02d', #words) .. table.concat(words)
end

-- A lone holder of a plain lock, or nobody, and marks that fit.
local function simple(it)
  local row, count = it.holders[1], 0
  for _ in pairs(it.marks) do count = count + 1 end
  if #it.line > 0 or #it.holders > 1 or next(it.gone) or count > 99 then return false end
  if not row then return true end
  return row.mode == 'exclusive' and it.limit == 1 and row.permits == 1 and row.keepUntil == 0 and not row.waitingFor
    and not row.revoked and #row.id == 32 and #row.label < 10000 and it.last == row.fence + row.room
end

local function packed(it)
  if not simple(it) then
    return FULL .. cmsgpack.pack({
      last = it.last, limit = it.limit, holders = it.holders, line = it.line, marks = it.marks, gone = it.gone,
    })
  end
  local row = it.holders[1]
  if not row then return FREE .. string.format('%016.0f', it.last) .. packedMarks(it) end
  return HELD .. string.format('%016.0f%012.0f%016.0f%016.0f%016.0f', row.fence, row.room, row.used, row.since * 1000,
    math.ceil(row.ends * 1000)) .. row.id .. row.proc .. packedMarks(it) .. string.format('%04d', #row.label) .. row.label .. row.actor
end

-- An existing record is given its time to live first. Redis then takes the script for one that has begun to write, and
-- lets it finish also when memory is full: what is held can always be renewed and released.
local function save(it)
  local life = whole(lifeMs(it))
  if it.stored then redis.call('PEXPIRE', it.name, life) end
  redis.call('SET', it.name, packed(it), 'PX', life)
end

local function saveAll()
  for _, name in ipairs(KEYS) do
    if records[name] and not records[name].saved then
      records[name].saved = true
      save(records[name])
    end
  end
end

local function tell()
  for _, wake in ipairs(wakes) do redis.call('PUBLISH', channels .. wake.proc, wake.text) end
end

local function find(rows, id)
  for at, row in ipairs(rows) do
    if row.id == id then return row, at end
  end
end

local function drop(rows, id)
  local _, at = find(rows, id)
  if at then table.remove(rows, at) end
end

local function claimFor(ttlMs)
  return math.min(claimMs, math.max(SHORTEST_CLAIM_MS, ttlMs))
end

-- Takes a holder out, or leaves its shadow where the key must stay taken. Where nobody can say which fences
-- it used, its whole room counts: no clock is asked, because it may have been set back.
local function let(it, row, used)
  local top = row.fence + row.room
  if used and it.last == top then it.last = math.min(top, math.max(row.fence, row.used, used)) end
  if row.proc ~= '' and row.keepUntil > now then
    row.id, row.proc, row.ends, row.waitingFor = '', '', row.keepUntil, nil
    return
  end
  for at, one in ipairs(it.holders) do
    if one == row then return table.remove(it.holders, at) end
  end
end

local function sweep(it)
  for at = #it.holders, 1, -1 do
    if it.holders[at].ends <= now then let(it, it.holders[at]) end
  end
  for at = #it.line, 1, -1 do
    if now - it.line[at].seen > claimMs * FORGOTTEN_CLAIMS then table.remove(it.line, at) end
  end
  return it
end

-- Every record of KEYS, swept.
local function all()
  local found = {}
  for at, name in ipairs(KEYS) do found[at] = sweep(record(name)) end
  return found
end

-- The row of this id in every record, or nil when one of them lacks it.
local function rowsOf(found, id)
  local rows = {}
  for at, it in ipairs(found) do
    rows[at] = find(it.holders, id)
    if not rows[at] then return nil end
  end
  return rows
end

local function fits(it, waiter)
  if #it.holders == 0 then return true end
  local permits, shared = 0, waiter.mode == 'shared'
  for _, row in ipairs(it.holders) do
    permits = permits + row.permits
    shared = shared and row.mode == 'shared'
  end
  -- A lock and a semaphore exclude each other. Of a semaphore the limit that the waiter itself names counts.
  if (waiter.limit > 1) ~= (it.limit > 1) then return false end
  if waiter.limit > 1 then return permits + waiter.permits <= waiter.limit end
  return shared
end

local function first(it)
  for _, row in ipairs(it.line) do
    if now - row.seen <= claimFor(row.ttlMs) * FRESH_SHARE then return row end
  end
end

local function promote(found, waiter)
  local claim = claimFor(waiter.ttlMs)
  local alone = waiter.mode == 'exclusive' and waiter.limit == 1
  local room = alone and (waiter.room or math.floor(waiter.ttlMs * 1000)) or 0
  local words = { 'grant', waiter.id, whole(waiter.seq), whole(room), tostring(claim) }
  for _, it in ipairs(found) do
    local fence = math.max(it.last + 1, wallUs)
    drop(it.line, waiter.id)
    it.last, it.limit = fence + room, #it.holders == 0 and waiter.limit or math.max(it.limit, waiter.limit)
    table.insert(it.holders, {
      id = waiter.id, proc = waiter.proc, mode = waiter.mode, permits = waiter.permits,
      label = waiter.label, actor = waiter.actor, fence = fence, room = room, used = fence, since = now,
      ends = waiter.seen + claim + waiter.graceMs,
      keepUntil = waiter.keepMs == 0 and 0 or now + waiter.keepMs,
    })
    table.insert(words, whole(fence))
  end
  table.insert(wakes, { proc = waiter.proc, id = waiter.id, text = table.concat(words, ' ') })
end

-- As long as the first live waiter fits beside the holders it becomes one. A waiter for several keys that this step does
-- not have is told to look for itself.
local function settle(it)
  while true do
    local waiter = first(it)
    if not waiter or not fits(it, waiter) then return end
    local needed = { it }
    for at, name in ipairs(waiter.keys or {}) do
      needed[at] = records[name]
      if not needed[at] then
        table.insert(wakes, { proc = waiter.proc, id = waiter.id, text = 'look ' .. waiter.id })
        return
      end
    end
    for _, one in ipairs(needed) do
      local head = first(one)
      if not head or head.id ~= waiter.id or not fits(one, waiter) then return end
    end
    promote(needed, waiter)
  end
end

-- Whether this id has ended: its turn lies below the mark of its store, or it is named itself.
local function hasEnded(it, id, turn)
  local mark = it.marks[self]
  return (mark and turn < mark[1]) or it.gone[id] ~= nil
end

local function forget(list, sinceOf)
  for name, entry in pairs(list) do
    if sinceOf(entry) < now - REMEMBER_MS then list[name] = nil end
  end
end

-- Remembers that this id has ended (P8). `open` is the oldest turn of its store that is still open for this key: all turns
-- below it have ended, so that one number per store is enough; only an id that ended before an older one is named itself.
local function markEnded(it, id, turn, open)
  local mark = it.marks[self]
  forget(it.marks, function(entry) return entry[2] end)
  forget(it.gone, function(since) return since end)
  it.marks[self] = { math.max(open, mark and mark[1] or 0), now }
  if turn >= open then it.gone[id] = now end
end

-- What people may know of the holders of a record, as a flat list of nine words each.
local function describe(it, into)
  for _, row in ipairs(it.holders) do
    for _, word in ipairs({
      row.label, row.mode, whole(row.permits), whole(row.used), tostring(math.max(0, row.ends - now)),
      tostring(math.max(0, now - row.since)), row.waitingFor or '', row.revoked and 'revoked:' .. row.revoked or '',
      row.proc == '' and 'kept' or '',
    }) do table.insert(into, word) end
  end
  return into
end
