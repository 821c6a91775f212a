-- Plain locks on one key each, many in one call: exclusive, no `keep`. A key that nobody holds or waits for
-- takes few commands; for the others the rules decide in the same call, in the order of the items.
-- KEYS[1..n]  records
-- KEYS[n+1]   the highest fence of the namespace; absent in a Cluster
-- ARGV[1]     attempts are worthless after this time of the server, in ms (13 digits), and what head has in
--             four: the opened store (16 characters), ms (5 digits), one server ("1" or "0"), prefix
-- ARGV[2..]   per key one item. Of an attempt: "a", "1" for a place in the queue, ttl in us (12 digits), how
--             long the key is kept for the holder in us (13), how long the record lives in ms (10), numbers
--             behind its fence that it may use (12), and its row from column 84 on. Of a release: the first
--             19 columns of its row, with the last fence that was used, and the id
-- Returns a text: time in us (16 digits), the fence of what was granted (16), and per key one letter: g
--         granted, l late, 1 released, + for what the rules said. Then it returns a list: the text, and per
--         "+" the answer of acquire.lua; "1" or "0" for a release; "" if acquire.lua or release.lua has to be
--         asked; or "failed:" and the error
--@include time
local count = #ARGV - 1
local clock = KEYS[count + 1]
local now, isLate = time[1] .. sub('00000' .. time[2], -6), wall > sub(ARGV[1], 1, 13) * 1000
-- All keys that are free in this call get the same fence.
local fence, isSaved = '0000000000000000', false
-- Most attempts of one call differ only in their rows from column 84 on.
local spec, life, start
local letters, left = '', nil

for at = 1, count do
  local name, item, letter = KEYS[at], ARGV[at + 1], nil
  if sub(item, 1, 1) ~= 'a' then
    local got = clock and redis.pcall('HMGET', name, 'v', 'holder', 'tail', 'counted', 'ended')
    local row = got and got[2]
    -- Held by this id, not revoked, not over, no note, nobody waits, and no fence was used but the first.
    if row and got[1] == '3' and not got[3] and not got[4] and not got[5]
      and sub(row, 1, 19) == sub(item, 1, 19) and sub(row, 112, 143) == sub(item, 20, 51)
      and sub(row, 68, 83) > now then
      call('DEL', name)
      letter = '1'
    end
  elseif isLate then
    letter = 'l'
  elseif call('EXISTS', name) == 0 then
    if sub(item, 1, 49) ~= spec then
      if not spec then
        local last = clock and tonumber(call('GET', clock) or nil)
        fence = last and last >= wall and fmt('%016.0f', last + 1) or now
      end
      spec, life = sub(item, 1, 49), sub(item, 28, 37) + 0
      start = 'h- ' .. fence .. ' ' .. sub(item, 38, 49) .. ' ' .. fence .. ' ' .. now .. ' '
        .. fmt('%016.0f', wall + sub(item, 15, 27))
    end
    local set = redis.pcall('HSET', name, 'v', '3', 'holder', start .. sub(item, 50))
    if type(set) == 'table' then
      left = left or {}
      left[#left + 1] = 'failed:' .. set.err
      letter = '+'
    else
      call('PEXPIRE', name, life)
      if not clock then
        call('HSET', name, 'fence', fence)
      elseif not isSaved then
        call('SET', clock, fence)
        isSaved = true
      end
      letter = 'g'
    end
  end
  if not letter then
    left = left or {}
    left[#left + 1] = at
    letter = '+'
  end
  letters = letters .. letter
end

local text = now .. fence .. letters
if not left then return text end

local self, claimUs = sub(ARGV[1], 14, 29), sub(ARGV[1], 30, 34) * 1000
local isOneServer, channels = sub(ARGV[1], 35, 35) == '1', sub(ARGV[1], 36)
--@include ledger

local function decide(at, item)
  local isAttempt = sub(item, 1, 1) == 'a'
  local id = isAttempt and sub(item, 78, 109) or sub(item, 20, 51)
  local it = open(KEYS[at], nil, id)
  if it.counted or it.permits then return '' end
  if not isAttempt then return whole(finish({ it }, id, { tonumber(sub(item, 4, 19)) })) end
  return attempt({ it }, {
    id = id, proc = self, mode = 'x', permits = 1, limit = 1, keep = 0, several = false,
    ttl = tonumber(sub(item, 3, 14)), hold = tonumber(sub(item, 15, 27)), life = tonumber(sub(item, 28, 37)),
    reserved = tonumber(sub(item, 38, 49)), queue = sub(item, 2, 2) == '1', rest = sub(item, 128),
  })
end

local answers = { text }
for _, at in ipairs(left) do
  local decided, answer = true, at
  if type(at) == 'number' then decided, answer = pcall(decide, at, ARGV[at + 1]) end
  if not decided then answer = 'failed:' .. (type(answer) == 'table' and answer.err or tostring(answer)) end
  table.insert(answers, answer)
end
return answers
