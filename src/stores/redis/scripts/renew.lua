-- Moves the ends of many leases, each in all of its keys or in none. Never recreates what is gone, never moves an end back.
-- A record that is damaged costs its own lease the renewal, and no other.
-- KEYS: the records of the first lease, then those of the second, and so on
-- ARGV: 1-3 see clock; then per lease its id, how many keys it has, ttl, grace, label, and per key the fence in use
-- Returns per lease "renewed", "gone", "revoked:" and the reason, or "failed:" and the error; then this
-- server's time in us
--@include clock
--@include rules
--@include guarded

-- `key` and `at`: before the first of its KEYS, and the first of its ARGV.
local function renew(key, at)
  local id, count, ttlMs, graceMs, label = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local found = {}
  for i = 1, count do found[i] = sweep(record(KEYS[key + i])) end
  local rows = rowsOf(found, id)
  if not rows then return 'gone' end
  for _, row in ipairs(rows) do
    if row.revoked then return 'revoked:' .. row.revoked end
  end
  for i, row in ipairs(rows) do
    row.ends = math.max(row.ends, now + ttlMs + graceMs)
    row.used, row.label = tonumber(ARGV[at + 4 + i]) or row.used, label
    found[i].moved = true
  end
  return 'renewed'
end

local answers, key, at = {}, 0, 4
while ARGV[at] do
  table.insert(answers, guarded(renew, key, at))
  local count = tonumber(ARGV[at + 1])
  key, at = key + count, at + 5 + count
end
for name, it in pairs(records) do
  if not it.moved then records[name] = nil end
end
saveAll()
table.insert(answers, whole(wallUs))
return answers
