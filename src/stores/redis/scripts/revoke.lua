-- An operator takes a key away from its holders, or from the one with this fence. Their stores are notified.
-- KEYS[1..2]  the record, and the ends of its readers and permits
-- KEYS[3]     the highest fence of the namespace; absent in a Cluster
-- ARGV[1..4]  see head
-- ARGV[5]     the reason
-- ARGV[6]     the fence, or ""
-- ARGV[7]     "1" to free the key at once
-- Returns "revoked", "free" or "other-fence"
--@include head
local clock = KEYS[3]
--@include ledger

local reason, fence, force = ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1'
local it = open(KEYS[1], KEYS[2], '')
if it.isUnknown or (it.isOld and it.ends > wall) then error(FOREIGN) end
if it.isOld or not it.stored then return 'free' end
sweep(it, '')
local rows = {}
if it.holder then rows[1] = it.holder end
if it.permits then
  for _, id in ipairs(call('ZRANGE', it.zset, 0, -1)) do
    local text = field(it.name, 'held:' .. id)
    local row = text and readRow(text)
    if row and row.state ~= 'r' then table.insert(rows, row) end
  end
end
local hit = false
for _, row in ipairs(rows) do
  if not fence or (row.fence <= fence and fence <= row.fence + row.reserved) then
    hit = true
    local owned = row.state ~= 'k'
    row.keep = 0
    if owned then call('PUBLISH', channels .. row.proc, 'revoked ' .. row.id .. ' ' .. reason) end
    if force or not owned then
      removeHolder(it, row)
    else
      row.state = 'v'
      extend(it, 1)
      writeRow(it, row)
      call('HSET', it.name, 'reason:' .. row.id, reason)
    end
  end
end
settle(it)
save(it)
if #rows == 0 then return 'free' end
return hit and 'revoked' or 'other-fence'
