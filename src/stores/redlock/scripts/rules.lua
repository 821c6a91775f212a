-- The record of a key on one node and the rules by which it changes. `c` is the largest number that belongs
-- to a proposal which was accepted: its fence and all its reserved numbers. It never falls below a fence that
-- somebody can have used. `row` is the holder. `queue` has the waiters, the oldest request first. A free key
-- is reserved for the first of them for a moment, so that a release does not end in a race. Only `c` and
-- `row` carry safety. Columns of a HELD record: form 1-4, fence 5-22, fence in use 23-40, end 41-54, since
-- 55-68, number of reserved fences 69-80, process 81-96, length of the id 97-99, length of the label 100-103,
-- then id, label, actor. Follows clock.lua

-- A waiter promises its next attempt: soon at the head of the queue, seldom deep in it. A waiter that broke
-- its promise by more than LATE_MS is removed.
local POLL_MS, STEP_MS, LONGEST_POLL_MS, LATE_MS = 250, 125, 5000, 750
-- So many waiters whose processes do not listen are passed over in one step.
local MOST_PASSED_OVER = 16

local function whole(number)
  return string.format('%.0f', number)
end

local function readHeld(text)
  local idEnd = 103 + sub(text, 97, 99)
  local labelEnd = idEnd + sub(text, 100, 103)
  local row = {
    fence = tonumber(sub(text, 5, 22)), used = tonumber(sub(text, 23, 40)),
    ends = tonumber(sub(text, 41, 54)), since = tonumber(sub(text, 55, 68)), room = tonumber(sub(text, 69, 80)), proc = sub(text, 81, 96),
    id = sub(text, 104, idEnd), label = sub(text, idEnd + 1, labelEnd), actor = sub(text, labelEnd + 1),
    keepUntil = 0,
  }
  return { c = row.fence + row.room, row = row }
end

-- What an error says that pcall has caught.
local function reason(caught)
  return tostring(type(caught) == 'table' and caught.err or caught)
end

local function readOld(text, form)
  if form == OLD_FULL then
    local it = cmsgpack.unpack(sub(text, 5))
    for _, waiter in ipairs(it.line or {}) do waiter.untilMs = waiter.seen + 2000 end
    return { c = it.c, row = it.row, queue = it.line, reserved = it.promised }
  end
  local c, _, _, id, proc, fence, room, used, since, ends, label, actor = cmsgpack.unpack(sub(text, 5))
  local row = id and {
    id = id, proc = proc, fence = fence, room = room, used = used, since = since, ends = ends, label = label,
    actor = actor, keepUntil = 0,
  }
  return { c = c, row = row }
end

local function read(name)
  local text = redis.call('GET', name)
  local form = text and sub(text, 1, 4)
  local it
  if not text then it = { c = 0 }
  elseif form == FREE then it = { c = tonumber(sub(text, 5)) }
  elseif form == HELD then it = readHeld(text)
  elseif form == QUEUED then it = cmsgpack.unpack(sub(text, 5))
  elseif form == OLD_SHORT or form == OLD_FULL then it = readOld(text, form)
  else error('HOLDFAST-FOREIGN') end
  it.name, it.stored, it.queue = name, text and true, it.queue or {}
  return it
end

local function column(value, width)
  return sub(value .. BLANKS, 1, width)
end

local function writeHeld(row)
  return HELD .. column(whole(row.fence), 18) .. column(whole(row.used), 18) .. column(whole(row.ends), 14)
    .. column(whole(row.since), 14) .. column(whole(row.room), 12) .. column(row.proc, 16)
    .. column(tostring(#row.id), 3) .. column(tostring(#row.label), 4) .. row.id .. row.label .. row.actor
end

-- A counter has no time to live, because the clock of this node may jump: sweep.lua deletes it when it is
-- old. An existing record is given one before it is written: Redis then lets the script finish also when
-- memory is full.
local function save(it)
  local row = it.row
  local isLone = #it.queue == 0 and not it.reserved
  local isPlain = row and it.c == row.fence + row.room and row.keepUntil == 0 and row.proc ~= ''
  local body
  if isLone and not row then body = FREE .. whole(it.c)
  elseif isLone and isPlain and not row.waitingFor and not row.revoked then body = writeHeld(row)
  else body = QUEUED .. cmsgpack.pack({ c = it.c, row = row, queue = it.queue, reserved = it.reserved }) end
  if it.stored then redis.call('PEXPIRE', it.name, REMEMBER_MS) end
  if it.c == 0 and not row then redis.call('SET', it.name, body, 'PX', REMEMBER_MS)
  else redis.call('SET', it.name, body) end
end

local function positionOf(it, id)
  for at, waiter in ipairs(it.queue) do
    if waiter.id == id then return at end
  end
end

local function leaveQueue(it, id)
  local at = positionOf(it, id)
  if at then table.remove(it.queue, at) end
  if it.reserved and it.reserved.id == id then it.reserved = nil end
end

-- Removes the holder, or leaves a holder without a process where the key must stay taken. `used` is the last
-- fence that was used. Where nobody can say, all reserved numbers count as used: no clock is asked.
local function removeHolder(it, used)
  local row = it.row
  if used and it.c == row.fence + row.room then it.c = math.min(it.c, math.max(row.fence, used)) end
  if row.proc ~= '' and row.keepUntil > now then
    row.id, row.proc, row.ends, row.waitingFor = '', '', row.keepUntil, nil
  else it.row = nil end
end

local function removeExpired(it)
  if it.row and it.row.ends <= now then removeHolder(it) end
  if it.reserved and it.reserved.ends <= now then leaveQueue(it, it.reserved.id) end
  for at = #it.queue, 1, -1 do
    if it.queue[at].untilMs < now then table.remove(it.queue, at) end
  end
  return it
end

-- Reserves a free key for the oldest request whose process listens, and notifies that process. If none
-- listens, the oldest request finds the reservation with its next attempt.
local function reserve(it)
  if it.row or it.reserved then return end
  local first = it.queue[1]
  for at = 1, math.min(#it.queue, MOST_PASSED_OVER) do
    local waiter = it.queue[at]
    if redis.call('PUBLISH', channels .. waiter.proc, 'wake ' .. waiter.id) > 0 then
      first = waiter
      break
    end
  end
  if first then it.reserved = { id = first.id, label = first.label, ends = now + claimMs } end
end

-- All nodes order their queues by the same numbers, so that they reserve a key for the same request. Returns
-- in how many ms the waiter attempts again, and its position.
local function enqueue(it, asked)
  local at = positionOf(it, asked.id)
  if not at then
    at = #it.queue + 1
    while at > 1 do
      local before = it.queue[at - 1]
      if before.birth < asked.birth or (before.birth == asked.birth and before.id < asked.id) then break end
      at = at - 1
    end
    local waiter = { id = asked.id, proc = self, birth = asked.birth, label = asked.label, since = now }
    table.insert(it.queue, at, waiter)
  end
  local waiter = it.queue[at]
  local patientMs = math.max(POLL_MS, math.floor((now - waiter.since) / 2))
  local againMs = math.min(LONGEST_POLL_MS, POLL_MS + STEP_MS * (at - 1), patientMs)
  waiter.untilMs = now + againMs + LATE_MS
  return againMs, at
end

-- The holder as people may see it: "held", two places for what a refused proposal is told (ms until its next
-- attempt, its position), label, fence, fence in use, ms left, ms held, waited-for key, revocation, "kept".
local function describe(row)
  return {
    'held', '', '', row.label, whole(row.fence), whole(row.used), tostring(math.max(0, row.ends - now)),
    tostring(math.max(0, now - row.since)), row.waitingFor or '',
    row.revoked and 'revoked:' .. row.revoked or '', row.proc == '' and 'kept' or '',
  }
end
