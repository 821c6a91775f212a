-- Takes and releases plain locks that nobody waits for, many at once, each on its own: what most locks need. Whatever is not that
-- simple is left as it is, for `attempt` and `end` to decide.
-- KEYS: the record of each lock
-- ARGV: 1 the opened store that asks; then per key one text of fixed columns:
--       a  id (32), turn (12), room (12), ttl and grace in us (13), digits of the next (1), life of the record in ms (10),
--          bytes of the label (4), label, actor
--       e  id (32), turn (12), last fence that was used (16), oldest open turn (12)
-- Returns per key the fence, or "1" for a release, or "" where it is not that simple
--@include forms

local self = ARGV[1]
local time = redis.call('TIME')
local wall = time[1] .. string.sub('00000' .. time[2], -6)
local nowMs = string.sub(wall, 1, 13)
local sub = string.sub

-- Where the mark of this store begins, if it has one.
local function ownMark(text, first, count)
  for at = first, first + (count - 1) * MARK, MARK do
    if sub(text, at, at + 15) == self then return at end
  end
end

local function take(name, item)
  local text = redis.pcall('GET', name)
  local marks = '00'
  if text then
    if type(text) ~= 'string' or sub(text, 1, 4) ~= FREE or sub(text, 5, 20) >= wall then return '' end
    marks = sub(text, 21)
    local count = tonumber(sub(text, 21, 22))
    if not count or #text ~= 22 + count * MARK or not tonumber(sub(text, 5, 20)) then return '' end
    local own = ownMark(text, 23, count)
    if own and sub(item, 34, 45) < sub(text, own + 16, own + 27) then return '' end
  end
  local ends = string.format('%.0f', wall + sub(item, 58, 70))
  local life = sub(item, 72, 71 + sub(item, 71, 71))
  local body = HELD .. wall .. sub(item, 46, 57) .. wall .. wall .. ends .. sub(item, 2, 33) .. self .. marks .. sub(item, 82)
  local set = redis.pcall('SET', name, body, 'PX', life)
  return set.err and '' or wall
end

-- The marks with that of this store brought up to date and without those that nobody has spoken of for a while.
local function marked(text, open)
  local count, oldest = tonumber(sub(text, 129, 130)), string.format('%013.0f', nowMs - REMEMBER_MS)
  if not count then return nil end
  local kept, left = '', 1
  for at = 131, 131 + (count - 1) * MARK, MARK do
    if sub(text, at, at + 15) == self then
      local before = sub(text, at + 16, at + 27)
      if before > open then open = before end
    elseif sub(text, at + 28, at + 40) >= oldest then
      kept, left = kept .. sub(text, at, at + 40), left + 1
    end
  end
  if left > 99 then return nil end
  return string.format('%02d', left) .. self .. open .. nowMs .. kept
end

local function release(name, item)
  local text = redis.pcall('GET', name)
  if type(text) ~= 'string' or sub(text, 1, 4) ~= HELD or sub(text, 81, 112) ~= sub(item, 2, 33) then return '' end
  local fence, used, open = sub(text, 5, 20), sub(item, 46, 61), sub(item, 62, 73)
  if sub(text, 65, 80) <= wall or used < fence or used > wall or sub(item, 34, 45) >= open then return '' end
  local marks = marked(text, open)
  if not marks then return '' end
  local body = FREE .. used .. marks
  local set = redis.pcall('SET', name, body, 'PX', '3600000')
  if set.err then
    -- When memory is full Redis refuses this as a first write, and lets it pass as a second one.
    redis.call('PEXPIRE', name, '3600000')
    redis.call('SET', name, body, 'PX', '3600000')
  end
  return '1'
end

local answers = {}
for at, name in ipairs(KEYS) do
  local item = ARGV[at + 1]
  if sub(item, 1, 1) == 'a' then answers[at] = take(name, item) else answers[at] = release(name, item) end
end
return answers
