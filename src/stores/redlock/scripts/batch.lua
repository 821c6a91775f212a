-- What one turn of a client's event loop asks of this node, each item for one key:
-- "p" a proposal. The node accepts it only if the key is free or held by the same id, and its fence is larger
--     than all fences that this node has accepted. The fence and its reserved numbers are recorded in the
--     same step.
-- "e" the end of an id: a release or an abandonment. Frees what the id holds and reserves the key for the
--     next waiter.
-- "w" a withdrawn proposal, none of whose numbers was used. The request lives on, and may wait. "e", "w" and
--     a refused "p" without a place in the queue raise the counter to the fence of the proposal. If that
--     proposal arrives later, or again, the node rejects it like any other fence that is not larger (P8).
-- KEYS: 1 the marker, then the record of each item
-- ARGV: 1-3 see clock; then per item a text in columns, written by proposal-codec.ts
-- Returns per item: of a proposal 1 where it was accepted, else {"low" | "far", c, time in us}, the holder
--       (see rules), {"reserved", ms until the next attempt, position, label} or why this node may not vote
--       (see absence); of the others 1 if the id held the key, else 0; of any {"error", text}. Then this
--       node's clock (see marker)
--@include clock
--@include marker

local HOUR_US = 3600000000
local answers, rest = {}, {}
-- Only proposals are votes.
for at = 4, #ARGV do
  if sub(ARGV[at], 1, 1) == 'p' then
    identify()
    break
  end
end

-- A free key that nobody waits for, the most frequent case by far: decided before a single rule is set up.
local function takeFree(name, item)
  local fence = tonumber(sub(item, 3, 20))
  if not floor or fence <= floor or sub(item, 53, 54) ~= '0 ' then return end
  if math.abs(fence - wallUs) > HOUR_US then return end
  local text = redis.pcall('GET', name)
  if text and (type(text) == 'table' or sub(text, 1, 4) ~= FREE) then return end
  if text and fence <= tonumber(sub(text, 5)) then return end
  local ends = now + sub(item, 39, 52)
  local number = sub(item, 3, 20)
  local times = sub(ends .. BLANKS, 1, 14) .. sub(now .. BLANKS, 1, 14)
  local body = HELD .. number .. number .. times .. sub(item, 67, 78) .. self .. sub(item, 79)
  if not redis.pcall('SET', name, body).err then return 1 end
end

-- The only holder of a key that nobody waits for.
local function releaseHeld(name, item)
  local text = redis.pcall('GET', name)
  if not text or type(text) == 'table' or sub(text, 1, 4) ~= HELD or sub(item, 2, 2) == ' ' then return end
  local id = sub(item, 38)
  if sub(text, 104, 103 + sub(text, 97, 99)) ~= id or tonumber(sub(text, 41, 54)) <= now then return end
  local used = tonumber(sub(item, 2, 19))
  if used < tonumber(sub(text, 5, 22)) or used < tonumber(sub(item, 20, 37)) then return end
  local body = FREE .. sub(item, 2, 19)
  -- When memory is full Redis refuses this as a first write, and lets it pass as a second one.
  if redis.pcall('SET', name, body).err then
    redis.call('PEXPIRE', name, REMEMBER_MS)
    redis.call('SET', name, body)
  end
  return 1
end

for at = 2, #KEYS do
  local item = ARGV[at + 2]
  local kind = sub(item, 1, 1)
  local answer
  if kind == 'p' then answer = takeFree(KEYS[at], item)
  elseif kind == 'e' then answer = releaseHeld(KEYS[at], item) end
  answers[at - 1] = answer or false
  if not answer then table.insert(rest, at) end
end
answers[#KEYS] = clockText()
if #rest == 0 then return answers end
--@include absence
--@include rules

local function readProposal(item)
  local idEnd = 85 + sub(item, 79, 81)
  local labelEnd = idEnd + sub(item, 82, 85)
  return {
    queued = sub(item, 2, 2) == '1', fence = tonumber(sub(item, 3, 20)), birth = tonumber(sub(item, 21, 38)),
    holdMs = tonumber(sub(item, 39, 52)), keepMs = tonumber(sub(item, 53, 66)),
    room = tonumber(sub(item, 67, 78)),
    id = sub(item, 86, idEnd), label = sub(item, idEnd + 1, labelEnd), actor = sub(item, labelEnd + 1),
  }
end

local function propose(name, item)
  if not floor then return out() end
  local asked = readProposal(item)
  local id, fence = asked.id, asked.fence
  local it = removeExpired(read(name))
  local row = it.row
  local mine = row and row.id == id

  local function refuse(answer)
    local againMs, position = 0, 0
    if asked.queued then againMs, position = enqueue(it, asked)
    else
      leaveQueue(it, id)
      it.c = math.max(it.c, math.min(fence, wallUs + HOUR_US))
    end
    reserve(it)
    save(it)
    answer[2], answer[3] = tostring(againMs), tostring(position)
    return answer
  end

  if mine and row.revoked then return { 'ended' } end
  if row and not mine then return refuse(describe(row)) end
  if not row and it.reserved and it.reserved.id ~= id then
    return refuse({ 'reserved', '', '', it.reserved.label })
  end
  -- The reserved numbers of a proposal that its own client gives up were never used.
  local c = math.max(floor, mine and it.c == row.fence + row.room and row.fence or it.c)
  if mine and fence == row.fence and fence > floor then
    row.ends = math.max(row.ends, now + asked.holdMs)
    save(it)
    return 1
  end
  if math.abs(fence - wallUs) > HOUR_US then return { 'far', whole(c), whole(wallUs) } end
  if fence <= c then return { 'low', whole(c), whole(wallUs) } end
  leaveQueue(it, id)
  it.reserved = nil
  it.c = fence + asked.room
  it.row = {
    id = id, proc = self, fence = fence, room = asked.room, used = fence, since = now,
    ends = now + asked.holdMs,
    label = asked.label, actor = asked.actor, keepUntil = asked.keepMs == 0 and 0 or now + asked.keepMs,
  }
  save(it)
  return 1
end

local function finish(name, item)
  local id = sub(item, 38)
  local it = removeExpired(read(name))
  local held = it.row and it.row.id == id
  if held then removeHolder(it, tonumber(sub(item, 2, 19))) end
  leaveQueue(it, id)
  local proposed = tonumber(sub(item, 20, 37))
  if proposed > it.c and proposed - wallUs < HOUR_US then it.c = proposed end
  reserve(it)
  save(it)
  return held and 1 or 0
end

local function withdraw(name, item)
  local asked = readProposal(item)
  local it = removeExpired(read(name))
  local row = it.row
  local held = row and row.id == asked.id and row.fence <= asked.fence
  if held then
    row.keepUntil = 0
    removeHolder(it, row.fence)
  end
  if asked.fence > it.c and asked.fence - wallUs < HOUR_US then it.c = asked.fence end
  if held and asked.queued then enqueue(it, asked) end
  reserve(it)
  save(it)
  return held and 1 or 0
end

-- A damaged record fails its own item only.
local steps = { p = propose, e = finish, w = withdraw }
for _, at in ipairs(rest) do
  local item = ARGV[at + 2]
  local good, answer = pcall(steps[sub(item, 1, 1)], KEYS[at], item)
  answers[at - 1] = good and answer or { 'error', reason(answer) }
end
return answers
