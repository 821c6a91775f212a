-- An operator takes a key away from its holders, or from the one with this fence. Their processes are told.
-- KEYS: 1 the record
-- ARGV: 1-3 see clock; 4 reason, 5 fence or "", 6 "1" to free the key at once
-- Returns "revoked", "free" or "other-fence"
--@include clock
--@include rules

local it = all()[1]
if #it.holders == 0 then return 'free' end
local reason, fence, force = ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1'
local kept, hit = {}, false
for _, row in ipairs(it.holders) do
  local meant = not fence or (row.fence <= fence and fence <= row.fence + row.room)
  if meant then
    hit = true
    row.revoked, row.keepUntil = reason, 0
    if row.proc ~= '' then
      table.insert(wakes, { proc = row.proc, id = row.id, text = 'revoked ' .. row.id .. ' ' .. reason })
    end
  end
  if not meant or (row.proc ~= '' and not force) then table.insert(kept, row) end
end
if not hit then return 'other-fence' end
it.holders = kept
settle(it)
saveAll()
tell()
return 'revoked'
