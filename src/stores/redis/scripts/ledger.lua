-- The rules: who is granted what, and in which order. Follows record.lua.
--
-- 1. Sweep: rows whose end has passed leave; a key that must stay taken (`keep`) keeps its row without an
--    owner.
-- 2. The first live waiter that fits is called: its store is notified, and the key is reserved for it. An
--    exclusive waiter blocks everybody else because it is first. A reader or permit holder leaves the queue
--    for a row of its own, state r, so that those behind it can be called too.
-- 3. Only an attempt grants: of the waiter that is first and fits, or of a newcomer when nobody waits.
-- 4. A waiter that does not answer a call keeps its place, but is passed over until it is heard of again.
--@include record

-- No call is shorter than this, whatever the ttl.
local SHORTEST_CLAIM_US = 200000
-- A waiter that does not listen keeps its turn if its next promised attempt is this near, and may be this
-- late with it.
local SOON_US, LATE_US = 650000, 200000
local FIRST_BEAT_MS, BEAT_PER_PLACE_MS, LONGEST_BEAT_MS = 250, 125, 5000
-- How many that do not listen are passed over in one step.
local MOST_DEAF = 16
-- How much of a queue or of expired rows one step looks at.
local MOST_LOOKED_AT = 1000

local function claimFor(waiter)
  return math.min(claimUs, math.max(SHORTEST_CLAIM_US, waiter.ttl))
end

local function leave(it, id, beat)
  call('HDEL', it.name, 'ticket:' .. whole(beat.ticket), 'beat:' .. id, 'waiter:' .. id)
  it.waiting, it.queueMoved = math.max(0, it.waiting - 1), true
  if beat.ticket == it.head then it.head = it.head + 1 end
end

-- `used`: the last fence that the holder says it used. Where nobody can say, all its reserved numbers count.
local function removeHolder(it, row, used)
  local top = row.fence + row.reserved
  if used then top = math.min(top, math.max(row.fence, row.used, used)) end
  if top > row.fence then raise(it, top) end
  it.changed = true
  if row.state ~= 'k' and row.keep > wall then
    row.state, row.noted, row.ends = 'k', '-', row.keep
    call('HDEL', it.name, 'note:' .. row.id, 'reason:' .. row.id)
    return writeRow(it, row)
  end
  deleteRow(it, row)
end

-- Nobody came for a reserved place: the waiter returns to its ticket.
local function lapse(it, row, id)
  deleteRow(it, row)
  it.changed = true
  local text = field(it.name, 'beat:' .. row.id)
  local beat = text and readBeat(text)
  if not beat then return end
  beat.flag = 'm'
  if row.id == id then it.held, it.beat = nil, beat end
  call('HSET', it.name, 'ticket:' .. whole(beat.ticket), row.id)
  writeBeat(it, row.id, beat)
  it.head, it.queueMoved = math.min(it.head, beat.ticket), true
end

local function sweep(it, id)
  if it.holder and it.holder.ends <= wall then removeHolder(it, it.holder) end
  if not it.permits then return end
  local expired = call('ZRANGE', it.zset, '-inf', whole(wall), 'BYSCORE', 'LIMIT', 0, MOST_LOOKED_AT)
  it.isCut = #expired == MOST_LOOKED_AT
  for _, who in ipairs(expired) do
    local text = field(it.name, 'held:' .. who)
    if not text then
      call('ZREM', it.zset, who)
    else
      local row = readRow(text)
      if who == id then it.held = row end
      if row.state == 'r' then lapse(it, row, id) else removeHolder(it, row) end
      if who == id and row.state ~= 'k' then it.held = nil end
    end
  end
end

-- The first waiter that may be called. A waiter that does not listen is the first only if nobody behind it
-- listens.
local function first(it, id)
  local at, looked, deaf, passed = it.head, 0, nil, 0
  while at <= it.tail do
    looked = looked + 1
    if looked > MOST_LOOKED_AT then
      it.isCut = true
      return deaf
    end
    local who = field(it.name, 'ticket:' .. whole(at))
    if not who then
      if at == it.head then it.head, it.queueMoved = at + 1, true end
    else
      local got = call('HMGET', it.name, 'beat:' .. who, 'waiter:' .. who)
      local beat = who == id and it.beat or (got[1] and readBeat(got[1]))
      if not beat or not got[2] or beat.promised < wall then
        leave(it, who, beat or { ticket = at })
        it.changed = true
      else
        if beat.called > 0 and beat.called < wall and beat.flag ~= 'm' then
          beat.flag, it.changed = 'm', true
          writeBeat(it, who, beat)
        end
        local waiter = readWaiter(got[2])
        waiter.id, waiter.beat = who, beat
        if beat.flag == 'd' then
          deaf, passed = deaf or waiter, passed + 1
          if passed == MOST_DEAF then return deaf end
        elseif beat.flag ~= 'm' then
          return waiter
        end
      end
    end
    at = at + 1
  end
  return deaf
end

local function fits(it, waiter)
  if it.holder then return false end
  if not it.permits then return true end
  -- Readers have limit 1. A lock, a read lock and a semaphore exclude each other; of a semaphore the waiter's
  -- own limit counts.
  if waiter.mode == 'x' or (waiter.limit > 1) ~= (it.limit > 1) then return false end
  return waiter.limit == 1 or it.permits + waiter.permits <= waiter.limit
end

local function newRow(state, waiter, fence, reserved, ends, keep)
  return {
    state = state, noted = '-', fence = fence, reserved = reserved, used = fence, since = wall, ends = ends,
    keep = keep,
    permits = waiter.permits, mode = waiter.mode, id = waiter.id, proc = waiter.proc, rest = waiter.rest,
  }
end

-- Whether its store was told, or will ask again so soon that it can be waited for. Else it is passed over
-- this once.
local function notify(it, waiter)
  local beat = waiter.beat
  local heard = call('PUBLISH', channels .. waiter.proc, 'turn ' .. waiter.id)
  if heard > 0 or not isOneServer or beat.flag ~= '-' then return wall + claimFor(waiter) end
  local due = beat.promised - claimUs
  if due - wall <= SOON_US and due + LATE_US > wall then return due + LATE_US end
  beat.flag = 'd'
  writeBeat(it, waiter.id, beat)
  return nil
end

-- Calls waiters as long as the first of them fits. Returns true when that is `asker`, who is here already.
local function settle(it, asker)
  while true do
    local waiter = first(it, asker)
    if not waiter or not fits(it, waiter) then return false end
    if waiter.id == asker then return true end
    local beat = waiter.beat
    if beat.called >= wall then return false end
    local untilUs = notify(it, waiter)
    if untilUs then
      beat.called = untilUs
      writeBeat(it, waiter.id, beat)
      if waiter.mode == 'x' or waiter.several then return false end
      insertRow(it, newRow('r', waiter, 0, 0, untilUs, 0), waiter.limit)
      call('HDEL', it.name, 'ticket:' .. whole(beat.ticket))
      if beat.ticket == it.head then it.head, it.queueMoved = it.head + 1, true end
    end
  end
end

-- Two waiters per newcomer are looked at, so that the dead do not pile up behind a live one.
local function sweepQueue(it)
  local at = tonumber(field(it.name, 'swept') or it.head)
  for _ = 1, 2 do
    at = at + 1
    if at >= it.tail or at < it.head then at = it.head end
    local who = field(it.name, 'ticket:' .. whole(at))
    local text = who and field(it.name, 'beat:' .. who)
    local beat = text and readBeat(text)
    if beat and beat.promised < wall then leave(it, who, beat) end
  end
  call('HSET', it.name, 'swept', whole(at))
end

local function join(it, request)
  it.stored, it.tail, it.waiting, it.queueMoved = true, it.tail + 1, it.waiting + 1, true
  it.beat = { ticket = it.tail, promised = wall, flag = '-', called = 0, since = wall }
  if request.mode ~= 'x' then it.counted = '1' end
  call('HSET', it.name, 'v', VERSION, 'ticket:' .. whole(it.tail), request.id, 'waiter:' .. request.id,
    fmt('%s %s %s %07.0f %07.0f %016.0f ', request.proc, request.mode, request.several and 'm' or '-',
      request.permits, request.limit,
      request.ttl) .. request.rest)
  if request.mode ~= 'x' then call('HSET', it.name, 'counted', '1') end
  if it.waiting > 2 then sweepQueue(it) end
end

-- When a waiter asks again at the latest. The last term matters: with the position alone a fast queue would
-- stall after a crash.
local function beatMs(it)
  local place = math.max(0, math.min(it.beat.ticket - it.head, it.waiting - 1))
  local again = math.min(LONGEST_BEAT_MS, FIRST_BEAT_MS + BEAT_PER_PLACE_MS * place,
    math.max(FIRST_BEAT_MS, (wall - it.beat.since) / 2000))
  if place == 0 then
    local ends = it.holder and it.holder.ends
    if not ends and it.permits then ends = tonumber(call('ZRANGE', it.zset, 0, 0, 'WITHSCORES')[2]) end
    if ends then again = math.min(again, math.max(1, math.ceil((ends - wall) / 1000) + 1)) end
  end
  return it.isCut and 5 or math.floor(again), place
end

-- Adds holders of a busy key, three in all: each its row, its note and the reason of its revocation. Returns
-- how many there are.
local function describe(it, into)
  local texts = {}
  if it.holder then
    texts[1] = it.holder.text
  elseif it.permits then
    for _, who in ipairs(call('ZRANGE', it.zset, 0, 2)) do
      local text = field(it.name, 'held:' .. who)
      if text and sub(text, 1, 1) ~= 'r' then table.insert(texts, text) end
    end
  end
  for _, text in ipairs(texts) do
    if #into == 9 then break end
    local id = sub(text, 112, 143)
    local more = { false, false }
    if sub(text, 2, 2) == 'n' or sub(text, 1, 1) == 'v' then
      more = call('HMGET', it.name, 'note:' .. id, 'reason:' .. id)
    end
    table.insert(into, text)
    table.insert(into, more[1] or '')
    table.insert(into, more[2] or '')
  end
  return it.holder and 1 or it.permits and call('ZCARD', it.zset) or 0
end

local function busy(its, request)
  local again, place, count, rows = request.queue and LONGEST_BEAT_MS or FIRST_BEAT_MS, 0, 0, {}
  for _, it in ipairs(its) do
    if request.queue then
      local ms, at = beatMs(it)
      again, place = math.min(again, ms), math.max(place, at)
    end
  end
  for _, it in ipairs(its) do
    if request.queue then
      it.beat.promised = wall + again * 1000 + claimUs
      writeBeat(it, request.id, it.beat)
    end
    count = count + describe(it, rows)
  end
  local answer = { 'busy', whole(wall), whole(again), whole(place), whole(count) }
  for _, word in ipairs(rows) do table.insert(answer, word) end
  return answer
end

local function grant(its, request)
  local answer = { 'granted', whole(wall), whole(request.reserved) }
  for _, it in ipairs(its) do
    if it.isOld then
      call('DEL', it.name)
      raise(it, it.last)
    end
    if it.held then deleteRow(it, it.held) end
    if it.beat then leave(it, request.id, it.beat) end
    it.stored = true
    local fence = nextFence(it)
    local keep = request.keep > 0 and wall + request.keep or 0
    insertRow(it, newRow('h', request, fence, request.reserved, wall + request.hold, keep), request.limit)
    table.insert(answer, whole(fence))
  end
  return answer
end

-- The row of this id, whatever its state; a kept row has no owner.
local function ownRow(it, id)
  local row = it.holder and it.holder.id == id and it.holder or it.held
  return row and row.state ~= 'k' and row or nil
end

local function isHeld(row)
  return row and row.state ~= 'r'
end

-- One attempt for all records of `its`.
local function attempt(its, request)
  local id = request.id
  if isEnded(its[1], id) then return { 'ended', whole(wall) } end
  for _, it in ipairs(its) do
    if it.isUnknown or (it.isOld and it.ends > wall) then
      request.queue = false
      return busy({}, request)
    end
  end
  local held, part, revoked = true, false, false
  for _, it in ipairs(its) do
    if ownRow(it, id) or it.beat then extend(it, request.life) end
    sweep(it, id)
    local row = ownRow(it, id)
    -- Its lease is over, and only `keep` holds the key.
    if it.held and not row then revoked = true end
    if isHeld(row) then
      part, revoked = true, revoked or row.state == 'v'
    else
      held = false
    end
  end
  if held and not revoked then
    local answer = { 'granted', whole(wall), whole(ownRow(its[1], id).reserved) }
    for _, it in ipairs(its) do
      local row = ownRow(it, id)
      row.ends, row.rest = math.max(row.ends, wall + request.hold), request.rest
      writeRow(it, row)
      table.insert(answer, whole(row.fence))
      save(it)
    end
    return answer
  end
  if revoked then
    for _, it in ipairs(its) do save(it) end
    return { 'ended', whole(wall) }
  end
  if part then
    -- Some of its keys were taken away: the rest is of no use to anybody.
    for _, it in ipairs(its) do
      local row = ownRow(it, id)
      if row then removeHolder(it, row) end
      settle(it)
      save(it)
    end
    return { 'ended', whole(wall) }
  end
  local isNext = true
  for _, it in ipairs(its) do
    if it.beat then
      -- It is heard of: a call that it did not answer in time is forgotten.
      it.beat.promised, it.beat.called = math.max(it.beat.promised, wall), 0
      if it.beat.flag ~= '-' then it.beat.flag = 's' end
    end
    local waiter = not it.held and first(it, id)
    if it.held then
      -- Its place is reserved.
    elseif it.beat then
      local mine
      if it.changed then
        mine = settle(it, id)
      else
        mine = waiter and waiter.id == id and fits(it, request)
      end
      isNext = isNext and mine
    else
      if it.changed then
        settle(it)
        waiter = first(it, id)
      end
      isNext = isNext and not waiter and not it.isCut and fits(it, request)
    end
  end
  local answer
  if isNext then
    answer = grant(its, request)
  else
    if request.queue then
      for _, it in ipairs(its) do
        if it.isOld then
          call('DEL', it.name)
          raise(it, it.last)
          it.isOld = false
        end
        if not it.beat then join(it, request) end
      end
    end
    answer = busy(its, request)
  end
  for _, it in ipairs(its) do
    if not it.isExtended and (isNext or request.queue) then extend(it, request.life) end
    save(it)
  end
  return answer
end

-- Ends an id: what it holds is released, its place is given up, and the next waiters are called. `used`: per
-- record the last fence that was used, or nil. Returns whether it held all of them.
local function finish(its, id, used)
  local held = true
  for at, it in ipairs(its) do
    if it.isOld or it.isUnknown then
      held = false
    elseif not it.stored then
      held = false
    else
      extend(it, 1)
      sweep(it, id)
      local row = ownRow(it, id)
      held = held and isHeld(row)
      if row and row.state == 'r' then deleteRow(it, row) elseif row then removeHolder(it, row, used[at]) end
      if it.beat then leave(it, id, it.beat) end
      it.beat, it.held = nil, nil
      settle(it)
      save(it)
    end
  end
  return held and 1 or 0
end
