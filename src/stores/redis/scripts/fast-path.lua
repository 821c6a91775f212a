-- Plain locks on one key each, many in one call: exclusive, no `keep`. A key that nobody holds or waits for
-- takes four commands; for a contended one the rules decide in the same call.
-- KEYS[1..n]  records
-- KEYS[n+1]   the highest fence of the namespace; absent in a Cluster
-- ARGV[1..4]  see head
-- ARGV[5]     attempts are worthless after this time of the server, in ms
-- ARGV[6..]   per key one item: "a" for an attempt: "1" for a place in the queue, ttl in us (12 digits), how
--             long the key is kept for the holder in us (13), how long the record lives in ms (10), numbers
--             behind its fence that it may use (12), id (32), bytes of the label (4), label, actor; "r" for a
--             release: last fence that was used (16), id (32)
-- Returns time in us, then per key the fence of a granted attempt; the answer of acquire.lua; 1 or 0 for a
--         release; "" if acquire.lua or release.lua has to be asked; or "failed:" and the error
--@include head
local count = #ARGV - 5
local clock = KEYS[count + 1]
local wallText = fmt('%016.0f', wall)
local isLate = wall > ARGV[5] * 1000
local top

-- The next fence; the highest is written once, behind the last item.
local function fastFence()
  if not top then
    local last = clock and tonumber(call('GET', clock) or 0) or 0
    top = last
  end
  top = math.max(wall, top + 1)
  return top
end

local function saveTop()
  if top and clock then call('SET', clock, fmt('%.0f', top)) end
  top = nil
end

-- By the rules of the ledger, which are only made when they are needed.
local function contended(at, item)
  --@include ledger
  local id = sub(item, 50, 81)
  if sub(item, 1, 1) == 'r' then id = sub(item, 18, 49) end
  local it = open(KEYS[at], nil, id)
  if it.counted or it.permits then return '' end
  if sub(item, 1, 1) == 'r' then return finish({ it }, id, { tonumber(sub(item, 2, 17)) }) end
  return attempt({ it }, {
    id = id, proc = self, mode = 'x', permits = 1, limit = 1, keep = 0, several = false,
    ttl = tonumber(sub(item, 3, 14)), hold = tonumber(sub(item, 15, 27)), life = tonumber(sub(item, 28, 37)),
    reserved = tonumber(sub(item, 38, 49)), queue = sub(item, 2, 2) == '1', rest = sub(item, 82),
  })
end

local function guarded(at, item)
  saveTop()
  local done, answer = pcall(contended, at, item)
  if done then return answer end
  return 'failed:' .. (type(answer) == 'table' and answer.err or tostring(answer))
end

local NO_TIME = '0000000000000000'
local answers = { wallText }
for at = 1, count do
  local name, item = KEYS[at], ARGV[at + 5]
  local answer
  if sub(item, 1, 1) == 'a' then
    if isLate then
      answer = 'late'
    elseif call('EXISTS', name) == 0 then
      local fence = fmt('%016.0f', fastFence())
      local ends = fmt('%016.0f', wall + sub(item, 15, 27))
      local set = redis.pcall('HSET', name, 'v', '3', 'holder', 'h- ' .. fence .. ' ' .. sub(item, 38, 49)
        .. ' ' .. fence .. ' ' .. wallText .. ' ' .. ends .. ' ' .. NO_TIME .. ' 0000001 x '
        .. sub(item, 50, 81) .. ' ' .. self .. ' ' .. sub(item, 82))
      if type(set) == 'table' then
        answer = 'failed:' .. set.err
      else
        if not clock then call('HSET', name, 'fence', fence) end
        call('PEXPIRE', name, sub(item, 28, 37) + 0)
        answer = fence
      end
    end
  else
    local used = sub(item, 2, 17)
    local got = clock and redis.pcall('HMGET', name, 'v', 'holder', 'tail', 'counted', 'ended')
    local row = got and got[2]
    -- Held by this id, not revoked, not over, no note, nobody waits, and no fence was used but the first.
    local isPlain = row and got[1] == '3' and not got[3] and not got[4] and not got[5]
    if isPlain and sub(row, 112, 143) == sub(item, 18, 49) and sub(row, 1, 3) == 'h- '
      and sub(row, 4, 19) == used and sub(row, 68, 83) > wallText and sub(row, 85, 100) == NO_TIME then
      call('DEL', name)
      answer = 1
    end
  end
  answers[at + 1] = answer or guarded(at, item)
end
saveTop()
return answers
