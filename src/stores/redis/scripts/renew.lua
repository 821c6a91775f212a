-- Moves the ends of many leases, each in all of its keys or in none. Never recreates what is gone, never moves an end back.
-- KEYS: the records of the first lease, then those of the second, and so on
-- ARGV: 1-3 see clock; then per lease its id, how many keys it has, ttl, grace, label, and per key the fence in use
-- Returns per lease "renewed", "gone" or "revoked:" and the reason, then this server's time in us
--@include clock
--@include rules

local answers, key, at = {}, 0, 4
while ARGV[at] do
  local id, count, ttlMs, graceMs, label = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local found = {}
  for i = 1, count do found[i] = sweep(record(KEYS[key + i])) end
  local rows = rowsOf(found, id)
  local answer = rows and 'renewed' or 'gone'
  for _, row in ipairs(rows or {}) do
    if row.revoked then answer = 'revoked:' .. row.revoked end
  end
  if answer == 'renewed' then
    for i, row in ipairs(rows) do
      row.ends = math.max(row.ends, now + ttlMs + graceMs)
      row.used, row.label = tonumber(ARGV[at + 4 + i]) or row.used, label
      found[i].moved = true
    end
  end
  table.insert(answers, answer)
  key, at = key + count, at + 5 + count
end
for name, it in pairs(records) do
  if not it.moved then records[name] = nil end
end
saveAll()
table.insert(answers, whole(wallUs))
return answers
