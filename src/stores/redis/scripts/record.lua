-- The record of a key: how it is read and written. docs/stores/redis.md describes every field.
-- Follows head.lua. Before it: `clock`, the name of the key with the highest fence of the namespace, or nil
-- in a Cluster, where the highest fence stays in the record.
local VERSION = '3'
local FOREIGN = 'HOLDFAST-FOREIGN'
-- A record outlives every end and every promise in it by this much.
local SPARE_MS = 20000
local KEEP_FENCE_MS = 3600000

local function field(name, of)
  return call('HMGET', name, of)[1]
end

local function whole(number)
  return fmt('%.0f', number)
end

-- A number in a column. Whatever is none was not written by a script of ours.
local function column(text, from, to)
  local number = tonumber(sub(text, from, to))
  if not number or number < 0 then error(FOREIGN) end
  return number
end

-- A holder's row: state (h held, v revoked, k kept without owner, r reserved), n if it has a note, fence,
-- reserved fences, fence in use, since, end, kept until, permits, mode (x, s, p), id, store, bytes of the
-- label, label, actor.
local function readRow(text)
  if #text < 166 then error(FOREIGN) end
  local row = {
    state = sub(text, 1, 1), noted = sub(text, 2, 2), fence = column(text, 4, 19),
    reserved = column(text, 21, 32), used = column(text, 34, 49), since = column(text, 51, 66),
    ends = column(text, 68, 83), keep = column(text, 85, 100), permits = column(text, 102, 108),
    mode = sub(text, 110, 110), id = sub(text, 112, 143), proc = sub(text, 145, 160), rest = sub(text, 162),
    text = text,
  }
  local isKnown = string.find('hvkr', row.state, 1, true) and string.find('xsp', row.mode, 1, true)
  if not isKnown then error(FOREIGN) end
  column(row.rest, 1, 4)
  return row
end

local function rowText(row)
  row.text = fmt('%s%s %016.0f %012.0f %016.0f %016.0f %016.0f %016.0f %07.0f %s %s %s ', row.state,
    row.noted, row.fence, row.reserved, row.used, row.since, row.ends, row.keep, row.permits, row.mode, row.id,
    row.proc) .. row.rest
  return row.text
end

-- A waiter's promise: ticket, time until which it counts as alive, flag, time until which it was called,
-- since. Flags: "-", m (did not answer a call), d (did not listen, and was passed over), s (was heard of
-- after m or d; not d again).
local function readBeat(text)
  if #text < 63 then error(FOREIGN) end
  return {
    ticket = column(text, 1, 10), promised = column(text, 12, 27), flag = sub(text, 29, 29),
    called = column(text, 31, 46),
    since = column(text, 48, 63),
  }
end

local function writeBeat(it, id, beat)
  call('HSET', it.name, 'beat:' .. id,
    fmt('%010.0f %016.0f %s %016.0f %016.0f', beat.ticket, beat.promised, beat.flag, beat.called, beat.since))
end

-- What was written once when it joined: store, mode, m if it wants several keys, permits, limit, ttl, bytes
-- of the label, label, actor.
local function readWaiter(text)
  if #text < 53 then error(FOREIGN) end
  return {
    proc = sub(text, 1, 16), mode = sub(text, 18, 18), several = sub(text, 20, 20) == 'm',
    permits = column(text, 22, 28),
    limit = column(text, 30, 36), ttl = column(text, 38, 53), rest = sub(text, 55),
  }
end

-- A string that version 0.1 or 0.2 wrote: free when nobody holds it any more, else busy until the last end
-- (P22).
local function readOld(it)
  local text = redis.pcall('GET', it.name)
  if type(text) ~= 'string' then error(FOREIGN) end
  local form = sub(text, 1, 4)
  it.isOld, it.ends = true, 0
  if form == 'hf2f' then
    it.last = column(text, 5, 20)
  elseif form == 'hf2h' then
    it.last, it.ends = column(text, 5, 20) + column(text, 21, 32), column(text, 65, 80)
  elseif form == 'hf2t' then
    local read, old = pcall(cmsgpack.unpack, sub(text, 5))
    if not read or type(old) ~= 'table' or type(old.last) ~= 'number' or type(old.holders) ~= 'table'
      then error(FOREIGN) end
    it.last = old.last
    for _, row in ipairs(old.holders) do
      if type(row) ~= 'table' or type(row.ends) ~= 'number' then error(FOREIGN) end
      it.ends = math.max(it.ends, row.ends * 1000)
    end
  else
    error(FOREIGN)
  end
  return it
end

-- Whether a reply of HMGET or HGETALL says that this is no HASH. Any other error is raised.
local function isOtherType(got)
  if not got.err then return false end
  if not string.find(got.err, 'WRONGTYPE', 1, true) then error(got.err) end
  return true
end

-- The record under `name`, with what belongs to `id`. `ends` names the ZSET with the ends of readers and
-- permits.
local function open(name, ends, id)
  local it = { name = name, zset = ends, head = 1, tail = 0, waiting = 0, ended = '' }
  local got = redis.pcall('HMGET', name, 'v', 'holder', 'permits', 'limit', 'head', 'tail', 'waiting',
    'counted', 'ended', 'fence',
    'held:' .. id, 'beat:' .. id)
  if isOtherType(got) then return readOld(it) end
  if not got[1] then
    if call('EXISTS', name) == 1 then error(FOREIGN) end
    return it
  end
  if got[1] ~= VERSION then
    it.isUnknown = true
    return it
  end
  it.stored = true
  it.holder = got[2] and readRow(got[2])
  it.permits, it.limit = tonumber(got[3] or nil), tonumber(got[4] or nil)
  it.head, it.tail, it.waiting = tonumber(got[5] or 1), tonumber(got[6] or 0), tonumber(got[7] or 0)
  it.counted, it.ended, it.fence = got[8], got[9] or '', tonumber(got[10] or nil)
  it.held = got[11] and readRow(got[11])
  it.beat = got[12] and readBeat(got[12])
  if not it.head or not it.tail or not it.waiting then error(FOREIGN) end
  if got[3] and (not it.permits or it.permits < 1 or not it.limit or (ends and call('ZCARD', ends) == 0))
    then error(FOREIGN) end
  return it
end

-- Requests that ended while an attempt of theirs may still arrive: per request its id and until when, in ms.
-- At most 64 of them.
local ENDED = 45
local MOST_ENDED = 64 * ENDED

local function isEnded(it, id)
  local at = string.find(it.ended, id, 1, true)
  return at ~= nil and sub(it.ended, at + 32, at + 44) * 1000 > wall
end

-- Those of which an attempt may still arrive, and how long that takes in ms.
local function pruneEnded(it)
  local kept, leftMs = '', 0
  for at = 1, #it.ended, ENDED do
    local untilMs = tonumber(sub(it.ended, at + 32, at + 44)) or 0
    if untilMs * 1000 > wall then
      kept = kept .. sub(it.ended, at, at + ENDED - 1)
      leftMs = math.max(leftMs, math.ceil(untilMs - wall / 1000) + 1)
    end
  end
  it.ended = sub(kept, -MOST_ENDED)
  return leftMs
end

local floor
local function floorOf(it)
  if not clock then return it.fence or 0 end
  if not floor then
    floor = tonumber(call('GET', clock) or 0)
    if not floor then error(FOREIGN) end
  end
  return floor
end

-- The fences of this key, or of the whole namespace, begin above `number` from now on.
local function raise(it, number)
  if number <= floorOf(it) then return end
  if clock then
    floor = number
    call('SET', clock, whole(number))
  else
    it.fence = number
    call('HSET', it.name, 'v', VERSION, 'fence', whole(number))
  end
end

local function nextFence(it)
  local fence = math.max(wall, floorOf(it) + 1)
  raise(it, fence)
  return fence
end

-- The ends outlive the record by a second, so that the record is never without them.
local function extendEnds(it, ms)
  call('PEXPIRE', it.zset, whole(ms + 1000))
end

-- Lets the record live for so long at least. Redis allows it when memory is full, and then everything that
-- follows it in the same script: what is held or waits can always be renewed, passed on and released.
local function extend(it, ms)
  ms = math.max(ms, call('PTTL', it.name))
  call('PEXPIRE', it.name, whole(ms))
  if it.permits then extendEnds(it, ms) end
  it.isExtended = true
end

local function writeRow(it, row)
  if row.mode == 'x' then
    it.holder = row
    call('HSET', it.name, 'v', VERSION, 'holder', rowText(row))
  else
    call('HSET', it.name, 'v', VERSION, 'counted', '1', 'held:' .. row.id, rowText(row))
    call('ZADD', it.zset, whole(row.ends), row.id)
  end
end

-- Takes a row in: of a holder, or of a waiter for whom a place is reserved.
local function insertRow(it, row, limit)
  if row.mode == 'x' then return writeRow(it, row) end
  local isFirst = not it.permits
  if isFirst then call('DEL', it.zset) end
  it.limit = isFirst and limit or math.max(it.limit, limit)
  it.permits = (it.permits or 0) + row.permits
  call('HSET', it.name, 'permits', whole(it.permits), 'limit', whole(it.limit))
  writeRow(it, row)
  if isFirst then extendEnds(it, math.max(1, call('PTTL', it.name))) end
end

local function deleteRow(it, row)
  if row.mode == 'x' then
    it.holder = nil
    call('HDEL', it.name, 'holder', 'note:' .. row.id, 'reason:' .. row.id)
    return
  end
  it.permits = it.permits - row.permits
  call('HDEL', it.name, 'held:' .. row.id, 'note:' .. row.id, 'reason:' .. row.id)
  call('ZREM', it.zset, row.id)
  if it.permits > 0 then
    call('HSET', it.name, 'permits', whole(it.permits))
  else
    it.permits, it.limit = nil, nil
    call('HDEL', it.name, 'permits', 'limit')
  end
end

-- Writes what the rules changed, or deletes a record that nobody needs any more. Only a Cluster keeps the
-- fence, for an hour.
local function save(it)
  if not it.stored then return end
  if it.holder or it.permits or it.waiting > 0 then
    if it.queueMoved then
      call('HSET', it.name, 'head', whole(it.head), 'tail', whole(it.tail), 'waiting', whole(it.waiting))
    end
    return
  end
  call('DEL', it.name, it.zset or it.name)
  local leftMs = pruneEnded(it)
  if it.fence then
    call('HSET', it.name, 'v', VERSION, 'fence', whole(it.fence))
    leftMs = KEEP_FENCE_MS
  end
  if it.ended ~= '' then call('HSET', it.name, 'v', VERSION, 'ended', it.ended) end
  if leftMs > 0 then call('PEXPIRE', it.name, whole(leftMs)) end
end
