-- Who holds and who waits. Changes nothing. A damaged record costs only its own key the answer.
-- KEYS        records of any number of keys
-- ARGV[1..4]  see head
-- Returns per key nothing where it is free; {end} in us where an older version holds it; {holders, waiters}:
--         per holder its row, its note and the reason of its revocation; per waiter its id, its promise and
--         its details; or "failed:" and the error. Then the time in us.
--@include head
local clock
--@include record
--@include guarded

local function inspect(name)
  local all = redis.pcall('HGETALL', name)
  if isOtherType(all) then
    local old = readOld({ name = name })
    return old.ends > wall and { whole(old.ends) } or false
  end
  local fields = {}
  for at = 1, #all, 2 do fields[all[at]] = all[at + 1] end
  if #all == 0 then return false end
  if not fields.v then error(FOREIGN) end
  if fields.v ~= VERSION then return { whole(wall + 250000) } end
  local holders, waiters = {}, {}
  local function show(text)
    local row = readRow(text)
    local last = row.state == 'k' and row.ends or math.max(row.ends, row.keep)
    if row.state == 'r' or last <= wall then return end
    table.insert(holders, text)
    table.insert(holders, fields['note:' .. row.id] or '')
    table.insert(holders, fields['reason:' .. row.id] or '')
  end
  if fields.holder then show(fields.holder) end
  for name, text in pairs(fields) do
    if sub(name, 1, 5) == 'held:' then
      show(text)
    elseif sub(name, 1, 5) == 'beat:' then
      local id = sub(name, 6)
      local details = fields['waiter:' .. id]
      if details and readBeat(text).promised >= wall then
        readWaiter(details)
        table.insert(waiters, id)
        table.insert(waiters, text)
        table.insert(waiters, details)
      end
    end
  end
  if fields.permits and (not tonumber(fields.permits) or not tonumber(fields.limit)) then error(FOREIGN) end
  if #holders == 0 and #waiters == 0 then return false end
  return { holders, waiters, fields.limit or '1' }
end

local answers = {}
for at, name in ipairs(KEYS) do answers[at] = guarded(inspect, name) end
answers[#KEYS + 1] = whole(wall)
return answers
