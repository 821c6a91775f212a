-- Moves the ends of many leases, each in all of its keys or in none. Never recreates what is gone, never
-- moves an end back. A damaged record costs its own lease the renewal, and no other.
-- KEYS        per lease and key its record, and the ends of its readers and permits unless it is a plain
--             lock: while a slot moves, a Cluster refuses scripts with a key that is on neither node
-- ARGV[1..4]  see head
-- ARGV[5..]   per lease its id, how many keys it has, "x" if it is a plain lock, how long the key is kept in
--             us, how long the record lives in ms, bytes of the label and label, and per key the fence in use
-- Returns time in us, then per lease "renewed", "gone", "revoked:" and the reason, or "failed:" and the error
--@include head
local clock
--@include record
--@include guarded

-- How many KEYS each key of a lease has.
local function widthOf(mode)
  return mode == 'x' and 1 or 2
end

-- `key`, `at`: where its KEYS and its ARGV begin.
local function renew(key, at)
  local id, count, mode, hold, life, label = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3],
    ARGV[at + 4], ARGV[at + 5]
  local its, rows, width = {}, {}, widthOf(mode)
  for i = 1, count do
    local it = { name = KEYS[key + width * (i - 1)], zset = mode ~= 'x' and KEYS[key + width * i - 1] }
    local got = redis.pcall('HMGET', it.name, 'v', mode == 'x' and 'holder' or 'held:' .. id, 'permits')
    if isOtherType(got) then error(FOREIGN) end
    if not got[1] and call('EXISTS', it.name) == 1 then error(FOREIGN) end
    local row = got[1] == VERSION and got[2] and readRow(got[2])
    if not row or row.id ~= id or row.ends <= wall or (row.state ~= 'h' and row.state ~= 'v')
      then return 'gone' end
    if row.state == 'v' then return 'revoked:' .. (field(it.name, 'reason:' .. id) or '') end
    it.permits = mode ~= 'x' and got[3]
    its[i], rows[i] = it, row
  end
  for i, row in ipairs(rows) do
    local used = tonumber(ARGV[at + 5 + i]) or row.used
    row.ends = math.max(row.ends, wall + hold)
    row.used = math.max(row.used, math.min(used, row.fence + row.reserved))
    -- The actor stands behind the label.
    row.rest = label .. sub(row.rest, 6 + tonumber(sub(row.rest, 1, 4)))
    extend(its[i], tonumber(life))
    writeRow(its[i], row)
  end
  return 'renewed'
end

local answers, key, at = { whole(wall) }, 1, 5
while ARGV[at] do
  table.insert(answers, guarded(renew, key, at))
  local count = tonumber(ARGV[at + 1])
  key, at = key + widthOf(ARGV[at + 2]) * count, at + 6 + count
end
return answers
